//! Checks where a panic occurs, and its message.

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

/// Runs `body`, which must panic, and returns the file and the message of the panic.
#[track_caller]
pub(crate) fn panic_of<T>(body: impl FnOnce() -> T) -> Panicked {
    // Other tests may panic at the same time. So the hook stays, and each thread stores its own file.
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = take_hook();
        set_hook(Box::new(move |info| {
            let file = info.location().unwrap().file().to_owned();
            // If a thread panics while it ends, its file was dropped already.
            let _ = FILE.try_with(|last| last.replace(file));
            previous(info);
        }));
    });
    let Err(payload) = catch_unwind(AssertUnwindSafe(body)) else {
        panic!("the body must panic");
    };
    Panicked {
        file: FILE.take(),
        message: message_of(payload),
    }
}

/// Returns the text of a call of `panic!`.
pub(crate) fn message_of(payload: Box<dyn Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(formatted) => *formatted,
        Err(payload) => (*payload.downcast::<&str>().unwrap()).to_owned(),
    }
}

/// Asserts that `body` panics in the caller's file, with a message that contains all expected parts.
#[track_caller]
pub(crate) fn assert_panics<T>(body: impl FnOnce() -> T, expected: &[&str]) {
    let Panicked { file, message } = panic_of(body);
    for part in expected {
        assert!(message.contains(part), "{message:?}");
    }
    assert_eq!(file, Location::caller().file(), "{message:?}");
}
