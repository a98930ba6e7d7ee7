//! Which architectures a fatbin has code for.

/// The first word of a fatbin.
const MAGIC: u32 = 0xba55_ed50;
const KIND_PTX: u16 = 1;
const KIND_MACHINE: u16 = 2;

/// Code for one architecture, e.g. 90.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// Machine code: runs on its architecture and later ones of the same generation.
    Machine(u32),
    /// PTX: the driver compiles it for its architecture and every later one.
    Ptx(u32),
}

impl Code {
    /// Whether a card of this compute capability runs it.
    pub(crate) const fn runs_on(self, (major, minor): (u32, u32)) -> bool {
        match self {
            Self::Machine(arch) => arch / 10 == major && arch % 10 <= minor,
            Self::Ptx(arch) => arch <= 10 * major + minor,
        }
    }

    /// As `TWINLOCK_CUDA_ARCHS` writes it.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Machine(arch) => format!("{arch}"),
            Self::Ptx(arch) => format!("compute_{arch}"),
        }
    }
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// What an image holds; none where its form is not the known one, for it is the toolkit's own
/// affair: an open will tell then.
pub(crate) fn codes(image: &[u8]) -> Option<Vec<Code>> {
    if u32::from_le_bytes(number(image, 0)?) != MAGIC {
        return None;
    }
    let mut at = usize::from(u16::from_le_bytes(number(image, 6)?));
    let size = usize::try_from(u64::from_le_bytes(number(image, 8)?)).ok()?;
    let end = at.checked_add(size)?;
    if end > image.len() {
        return None;
    }
    let mut codes = Vec::new();
    while at < end {
        let kind = u16::from_le_bytes(number(image, at)?);
        let header = u32::from_le_bytes(number(image, at.checked_add(4)?)?) as usize;
        let payload = u64::from_le_bytes(number(image, at.checked_add(8)?)?);
        let arch = u32::from_le_bytes(number(image, at.checked_add(28)?)?);
        match kind {
            KIND_PTX => codes.push(Code::Ptx(arch)),
            KIND_MACHINE => codes.push(Code::Machine(arch)),
            _ => {}
        }
        if header == 0 {
            return None;
        }
        at = at.checked_add(header)?.checked_add(usize::try_from(payload).ok()?)?;
    }
    Some(codes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(entries: &[(u16, u32)]) -> Vec<u8> {
        let mut body = Vec::new();
        for (kind, arch) in entries {
            let mut header = vec![0u8; 64];
            header[..2].copy_from_slice(&kind.to_le_bytes());
            header[4..8].copy_from_slice(&64u32.to_le_bytes());
            header[8..16].copy_from_slice(&16u64.to_le_bytes());
            header[28..32].copy_from_slice(&arch.to_le_bytes());
            body.extend(header);
            body.extend([7; 16]);
        }
        let mut image = MAGIC.to_le_bytes().to_vec();
        image.extend(1u16.to_le_bytes());
        image.extend(16u16.to_le_bytes());
        image.extend((body.len() as u64).to_le_bytes());
        image.extend(body);
        image
    }

    #[test]
    fn architectures_are_read() {
        let image = image(&[(2, 80), (2, 90), (1, 75), (64, 1)]);
        let expected = vec![Code::Machine(80), Code::Machine(90), Code::Ptx(75)];
        assert_eq!(codes(&image), Some(expected));
        // Cut anywhere, it is not understood, and nothing panics.
        for len in 0..image.len() {
            assert_eq!(codes(&image[..len]), None, "{len} bytes");
        }
        assert_eq!(codes(b"\x7fELF and more of it"), None);
    }

    /// The embedded kernels are of the form that this file knows.
    #[test]
    fn embedded_images_are_understood() {
        for (unit, image) in twinlock_cuda_kernels::images() {
            let codes = codes(image).unwrap_or_default();
            assert!(!codes.is_empty(), "{unit}");
        }
    }

    #[test]
    fn code_runs_where_nvidia_says() {
        assert!(Code::Machine(90).runs_on((9, 0)));
        assert!(Code::Machine(80).runs_on((8, 6)));
        assert!(!Code::Machine(86).runs_on((8, 0)));
        assert!(!Code::Machine(80).runs_on((9, 0)));
        assert!(Code::Machine(120).runs_on((12, 1)));
        assert!(Code::Ptx(75).runs_on((12, 0)));
        assert!(!Code::Ptx(75).runs_on((7, 0)));
    }
}
