//! Where something panics, and with what message.

use std::{
    any::Any,
    cell::RefCell,
    panic::{AssertUnwindSafe, Location, catch_unwind, set_hook, take_hook},
    sync::Once,
};

pub(crate) struct Panicked {
    pub(crate) file: String,
    pub(crate) message: String,
}

thread_local! {
    /// The file of this thread's last panic.
    static FILE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs what must panic, and says in which file and with what.
#[track_caller]
pub(crate) fn panic_of<T>(body: impl FnOnce() -> T) -> Panicked {
    // Other tests go on meanwhile and may panic too: the hook stays, and each thread has its file.
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |info| {
            let file = info.location().unwrap().file().to_owned();
            // A thread that panics while it ends has no file any more, and nobody asks for it.
            let _ = FILE.try_with(|last| last.replace(file));
            previous(info);
        }));
    });
    let Err(payload) = catch_unwind(AssertUnwindSafe(body)) else {
        panic!("did not panic");
    };
    Panicked {
        file: FILE.take(),
        message: message_of(payload),
    }
}

/// The text with which `panic!` was called.
fn message_of(payload: Box<dyn Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(formatted) => *formatted,
        Err(payload) => (*payload.downcast::<&str>().unwrap()).to_owned(),
    }
}

/// Asserts that `body` panics in the file of the caller, with all that is expected in the message.
#[track_caller]
pub(crate) fn assert_panics<T>(body: impl FnOnce() -> T, expected: &[&str]) {
    let Panicked { file, message } = panic_of(body);
    for part in expected {
        assert!(message.contains(part), "{message:?}");
    }
    assert_eq!(file, Location::caller().file(), "{message:?}");
}
