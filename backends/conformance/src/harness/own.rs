//! Tests of a backend's own, reported like the suite's where there is no device.

use libtest_mimic::{Completion, Failed, Trial as Named};
use twinlock_api::Backend;

use super::settings::Settings;

/// The first usable device of `backend`.
///
/// # Errors
/// Why there is none.
pub fn first_device(backend: &dyn Backend) -> Result<String, String> {
    let mut reasons = Vec::new();
    for found in backend.discover() {
        match found.usable {
            Ok(info) => return Ok(info.name),
            Err(reason) => reasons.push(format!("{}: {reason}", found.name)),
        }
    }
    if reasons.is_empty() {
        reasons.push(format!("{} found nothing", backend.name()));
    }
    Err(reasons.join("; "))
}

/// A test on the backend's first usable device, whose name it gets; a panic fails it. Without one
/// it is ignored, or fails if `TWINLOCK_REQUIRE` names the backend.
pub fn on_first_device(
    backend: impl Backend + 'static,
    name: &str,
    test: impl FnOnce(&str) + Send + 'static,
) -> Named {
    Named::ignorable_test(name, move || {
        let device = match first_device(&backend) {
            Ok(device) => device,
            Err(reason) => {
                let settings = Settings::from_env().map_err(Failed::from)?;
                let asked = |name: &String| name.split(':').next() == Some(backend.name());
                if settings.require.iter().any(asked) {
                    return Err(format!("TWINLOCK_REQUIRE names it, but: {reason}").into());
                }
                return Ok(Completion::ignored_with(reason));
            }
        };
        test(&device);
        Ok(Completion::Completed)
    })
}
