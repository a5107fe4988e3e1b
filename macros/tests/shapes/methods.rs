//! Methods of types and traits.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tracebraid::tracepoint;

/// Neither Debug nor Copy nor Display.
pub(super) struct Opaque {
    pub(super) n: u8,
}

#[tracepoint(skip(_o), fields(n = _o.n))]
pub(super) fn opaque(_o: Opaque, m: u8) -> u8 {
    m
}

pub(super) trait Shape {
    fn required(&self, n: u8) -> u8;

    #[tracepoint]
    fn provided(&self, n: u8) -> u8 {
        self.required(n) + 1
    }

    #[tracepoint]
    fn make(n: u8) -> Self
    where
        Self: Sized + From<u8>,
    {
        n.into()
    }

    fn later(&self, n: u8) -> impl Future<Output = u8> + Send;
}

impl From<u8> for Opaque {
    fn from(n: u8) -> Self {
        Self { n }
    }
}

impl Shape for Opaque {
    #[tracepoint(fields(own = self.n))]
    fn required(&self, n: u8) -> u8 {
        self.n + n
    }

    #[tracepoint(fields(self.n))]
    async fn later(&self, m: u8) -> u8 {
        std::future::ready(self.n + m).await
    }
}

impl Opaque {
    #[tracepoint]
    pub(super) fn by_value(self, n: u8) -> u8 {
        self.n + n
    }
    #[tracepoint]
    pub(super) fn by_box(self: Box<Self>, n: u8) -> u8 {
        self.n + n
    }
    #[tracepoint]
    pub(super) fn by_arc(self: &Arc<Self>, n: u8) -> u8 {
        self.n + n
    }
    #[tracepoint]
    pub(super) fn by_pin(mut self: Pin<&mut Self>, n: u8) -> u8 {
        self.n += n;
        self.n
    }
    #[tracepoint]
    pub(super) fn chained(&mut self) -> &mut Self {
        self
    }
    #[tracepoint(fields(n = self.n))]
    pub(super) fn borrowed(&mut self, by: u8) -> &mut u8 {
        self.n += by;
        if by == 3 {
            return &mut self.n;
        }
        &mut self.n
    }
    #[tracepoint]
    pub(super) fn maybe_borrowed(&mut self, by: u8) -> Option<&mut u8> {
        (by == 0).then_some(())?;
        Some(&mut self.n)
    }
    #[tracepoint]
    pub(super) fn associated(n: u8) -> Self {
        Self { n }
    }
    #[tracepoint]
    pub(super) async fn asynchronous(&mut self, n: u8) -> &mut u8 {
        self.n += n;
        std::future::ready(()).await;
        &mut self.n
    }
    #[tracepoint]
    pub(super) fn iterate(&self) -> impl Iterator<Item = u8> + '_ {
        (0..self.n).map(|n| n + self.n)
    }
    #[tracepoint]
    pub(super) fn object(&self) -> Box<dyn Iterator<Item = u8> + '_> {
        Box::new((0..self.n).map(|n| n + self.n))
    }
}

pub(super) struct Generic<T>(pub(super) T);

impl<T: Debug> Generic<T> {
    #[tracepoint(fields(?self.0))]
    pub(super) fn show(&self, mut n: u8) -> Vec<&T> {
        n += 1;
        (0..n).map(|_| &self.0).collect()
    }
    #[tracepoint(skip_all, fields(value = ?self.0, %n))]
    pub(super) fn mutate(mut self, n: u8) -> Self
    where
        T: From<u8>,
    {
        self.0 = n.into();
        self
    }
    #[tracepoint]
    pub(super) async fn amutate(mut self, n: u8) -> Self
    where
        T: From<u8>,
    {
        self.0 = std::future::ready(n).await.into();
        self
    }
}
