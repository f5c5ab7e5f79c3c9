//! What the services of all layers have in common.

/// Defines the service of a layer: a struct with the inner service and a copy of the layer.
///
/// The first argument is the module of the service, for the examples.
macro_rules! service {
    (
        $module:literal
        $(#[$attribute:meta])*
        pub struct $Service:ident<S $(, $L:ident = $default:ty)?> of $Layer:ident($Limit:ty)
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug)]
        #[must_use = "a service does nothing unless it is called"]
        pub struct $Service<S $(, $L = $default)?> {
            inner: S,
            layer: $Layer$(<$L>)?,
        }

        impl<S $(, $L: Clone)?> tower_layer::Layer<S> for $Layer$(<$L>)? {
            type Service = $Service<S $(, $L)?>;

            fn layer(&self, inner: S) -> Self::Service {
                let layer = self.clone();
                $Service { inner, layer }
            }
        }

        impl<S $(, $L)?> $Service<S $(, $L)?> {
            /// Wraps `inner` in the service of a layer with this limit.
            ///
            /// Use the layer for the options that only the layer has.
            ///
            /// # Examples
            ///
            /// ```
            /// use tokio_wheel::Duration;
            #[doc = concat!("use tokio_wheel_util::", $module, "::", stringify!($Service), " as Service;")]
            ///
            /// let service = Service::new("any service", Duration::from_secs(30));
            /// assert!(format!("{service:?}").contains("30s"));
            /// ```
            #[track_caller]
            pub const fn new(inner: S, limit: $Limit) -> Self {
                let layer = $Layer::new(limit);
                Self { inner, layer }
            }

            /// Returns a reference to the inner service.
            ///
            /// # Examples
            ///
            /// ```
            /// use tokio_wheel::Duration;
            #[doc = concat!("use tokio_wheel_util::", $module, "::", stringify!($Service), " as Service;")]
            ///
            /// let service = Service::new("any service", Duration::from_secs(30));
            /// assert_eq!(*service.get_ref(), "any service");
            /// ```
            pub fn get_ref(&self) -> &S {
                &self.inner
            }

            /// Returns a mutable reference to the inner service.
            ///
            /// # Examples
            ///
            /// ```
            /// use tokio_wheel::Duration;
            #[doc = concat!("use tokio_wheel_util::", $module, "::", stringify!($Service), " as Service;")]
            ///
            /// let mut service = Service::new("any service", Duration::from_secs(30));
            /// *service.get_mut() = "another";
            /// assert_eq!(service.into_inner(), "another");
            /// ```
            pub fn get_mut(&mut self) -> &mut S {
                &mut self.inner
            }

            /// Removes the limits and returns the inner service.
            ///
            /// # Examples
            ///
            /// ```
            /// use tokio_wheel::Duration;
            #[doc = concat!("use tokio_wheel_util::", $module, "::", stringify!($Service), " as Service;")]
            ///
            /// let service = Service::new("any service", Duration::from_secs(30));
            /// assert_eq!(service.into_inner(), "any service");
            /// ```
            pub fn into_inner(self) -> S {
                self.inner
            }
        }
    };
}
pub(crate) use service;
