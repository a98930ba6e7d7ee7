//! Result files that appear whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// More than any sane chain of links; the operating system's own limit.
const MAX_LINKS: usize = 40;

/// A result file that is filled beside its place and takes it when it is whole: nobody sees a part
/// of it, and a failure leaves what was there. Made before the work, so that a path that cannot be
/// written to does not cost the work.
///
/// Links are followed. What exists and is no regular file, a device or a pipe, is never replaced:
/// it is written to as it is.
#[derive(Debug)]
pub struct PendingFile {
    /// As it was asked for, for messages.
    path: PathBuf,
    file: File,
    place: Option<Place>,
}

/// Where a regular file is filled, and where it goes.
#[derive(Debug)]
struct Place {
    partial: PathBuf,
    target: PathBuf,
}

impl PendingFile {
    /// Makes the file beside `path`, or opens what is there if that is no regular file. A pipe is
    /// waited for until it has a reader.
    ///
    /// # Errors
    /// [`Error::Io`], also for a file that is there and read-only, and for a directory.
    pub fn create(path: &Path) -> Result<Self> {
        let open = || {
            let target = follow(path)?;
            let permissions = match fs::metadata(&target) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
                Ok(found) if !found.is_file() => {
                    let file = OpenOptions::new().write(true).open(&target)?;
                    return Ok((file, None));
                }
                // Asked for beside the attempt, for root may write to everything.
                Ok(found) if found.permissions().readonly() => {
                    let problem = "the file is there and read-only";
                    return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
                }
                Ok(found) => {
                    OpenOptions::new().write(true).open(&target)?;
                    Some(found.permissions())
                }
            };
            let mut partial = OsString::from(&target);
            partial.push(format!(".{}.partial", std::process::id()));
            let place = Place { partial: PathBuf::from(partial), target };
            let file = File::create_new(&place.partial)?;
            if let Some(permissions) = permissions
                && let Err(error) = file.set_permissions(permissions)
            {
                place.discard();
                return Err(error);
            }
            Ok((file, Some(place)))
        };
        let (file, place) = open().map_err(|e| Error::io(path, e))?;
        Ok(Self { path: path.to_owned(), file, place })
    }

    /// Whether the file takes its place as a whole; if not, it is a device or a pipe.
    pub fn is_regular(&self) -> bool {
        self.place.is_some()
    }

    /// Lets `write` fill the file and puts it in its place.
    ///
    /// # Errors
    /// [`Error::Io`]; what was there before stays.
    pub fn finish(mut self, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
        write(&mut self.file)
            .and_then(|()| match &self.place {
                None => Ok(()),
                Some(place) => {
                    self.file.sync_all()?;
                    fs::rename(&place.partial, &place.target)
                }
            })
            .map_err(|e| Error::io(&self.path, e))
    }
}

impl Place {
    fn discard(&self) {
        // Once renamed it is no longer there; a failure's own error says more than one to clean up.
        let _ = fs::remove_file(&self.partial);
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if let Some(place) = &self.place {
            place.discard();
        }
    }
}

/// Where `path` leads through links; the last one need not lead to anything.
fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::symlink_metadata(&target) {
            Ok(found) if found.is_symlink() => {
                let next = fs::read_link(&target)?;
                // A link of the system to an open pipe, as at /dev/stdout, names no path.
                if fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
                    return Ok(target);
                }
                target = target.parent().unwrap_or(Path::new("")).join(next);
            }
            Ok(_) => return Ok(target),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(target),
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!("more than {MAX_LINKS} links")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_whole_or_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("result");
        let names = || fs::read_dir(dir.path()).unwrap().count();
        PendingFile::create(&path).unwrap().finish(|file| file.write_all(b"first")).unwrap();
        assert_eq!((names(), fs::read(&path).unwrap()), (1, b"first".to_vec()));
        let failing = PendingFile::create(&path).unwrap().finish(|file| {
            file.write_all(b"second")?;
            Err(io::Error::other("full"))
        });
        assert!(failing.unwrap_err().to_string().contains("full"));
        drop(PendingFile::create(&path).unwrap());
        assert_eq!((names(), fs::read(&path).unwrap()), (1, b"first".to_vec()));
    }

    #[test]
    fn a_read_only_file_and_a_directory_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("result");
        fs::write(&path, "kept").unwrap();
        let mut permissions = fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&path, permissions).unwrap();
        let error = PendingFile::create(&path).unwrap_err().to_string();
        assert!(error.contains("result") && error.contains("read-only"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"kept");
        assert!(PendingFile::create(dir.path()).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn links_stay_and_lead_to_the_result() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let dir = tempfile::tempdir().unwrap();
        let (target, link, second) =
            (dir.path().join("target"), dir.path().join("link"), dir.path().join("second"));
        symlink("target", &link).unwrap();
        symlink(&link, &second).unwrap();
        let write = |text: &str| {
            let pending = PendingFile::create(&second).unwrap();
            assert!(pending.is_regular());
            pending.finish(|file| file.write_all(text.as_bytes())).unwrap();
        };
        // At first the links lead nowhere.
        write("first");
        fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).unwrap();
        write("second");
        assert_eq!(fs::read(&target).unwrap(), b"second");
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(link.is_symlink() && second.is_symlink() && !target.is_symlink());
        let circle = dir.path().join("circle");
        symlink("circle", &circle).unwrap();
        assert!(PendingFile::create(&circle).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_written_to_and_stays() {
        use std::os::unix::fs::{FileTypeExt, symlink};
        let dir = tempfile::tempdir().unwrap();
        let (pipe, link) = (dir.path().join("pipe"), dir.path().join("link"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        symlink(&pipe, &link).unwrap();
        for path in [&pipe, &link] {
            let reader = std::thread::spawn({
                let pipe = pipe.clone();
                move || fs::read(pipe).unwrap()
            });
            let pending = PendingFile::create(path).unwrap();
            assert!(!pending.is_regular());
            pending.finish(|file| file.write_all(b"result")).unwrap();
            assert_eq!(reader.join().unwrap(), b"result");
            assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
            assert!(link.is_symlink());
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
