//! Reading a body once, bounded in bytes, in time, and in what all bodies together may hold.

use crate::answer::Refusal;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Body;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A buffer starts no larger than this, whatever length the head declares.
const FIRST_BUFFER_BYTES: usize = 64 * 1024;

/// What a body may cost.
pub(crate) struct BodyLimits {
    pub(crate) max_body: usize,
    pub(crate) timeout: Duration,
    /// One permit a byte in hand.
    pub(crate) in_hand: Arc<Semaphore>,
}

/// The exact bytes, and their share of what may be in hand, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct HeldBody {
    pub(crate) bytes: Bytes,
    _share: OwnedSemaphorePermit,
}

/// Reads the body. A declared length over the limit is refused before anything is read, so that a client that waits
/// for `100 Continue` never sends it.
pub(crate) async fn read<B>(body: B, limits: &BodyLimits) -> Result<HeldBody, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Error + 'static,
{
    if body.size_hint().lower() > limits.max_body as u64 {
        return Err(Refusal::TooLarge(limits.max_body));
    }
    tokio::time::timeout(limits.timeout, read_all(body, limits))
        .await
        .unwrap_or_else(|_| Err(Refusal::TooSlow(limits.timeout)))
}

async fn read_all<B>(mut body: B, limits: &BodyLimits) -> Result<HeldBody, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Error + 'static,
{
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(limits.max_body);
    let mut share = reserve(limits, 0)?;
    let mut collected = Collected::Nothing;
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|e| fault(&e))?.into_data() else { continue };
        length += data.len();
        if length > limits.max_body {
            return Err(Refusal::TooLarge(limits.max_body));
        }
        share.merge(reserve(limits, data.len())?);
        collected = collected.with(data, declared);
    }
    Ok(HeldBody { bytes: collected.finish(), _share: share })
}

pub(crate) fn reserve(limits: &BodyLimits, bytes: usize) -> Result<OwnedSemaphorePermit, Refusal> {
    let permits = u32::try_from(bytes).map_err(|_| Refusal::Overloaded)?;
    Arc::clone(&limits.in_hand).try_acquire_many_owned(permits).map_err(|_| Refusal::Overloaded)
}

/// A body that came in one piece is passed on as that piece, without a copy.
enum Collected {
    Nothing,
    One(Bytes),
    Many(BytesMut),
}

impl Collected {
    fn with(self, data: Bytes, declared: usize) -> Self {
        match self {
            Self::Nothing => Self::One(data),
            Self::One(first) => {
                let expected = declared.max(first.len() + data.len());
                let mut buffer = BytesMut::with_capacity(expected.min(FIRST_BUFFER_BYTES));
                buffer.extend_from_slice(&first);
                buffer.extend_from_slice(&data);
                Self::Many(buffer)
            }
            Self::Many(mut buffer) => {
                buffer.extend_from_slice(&data);
                Self::Many(buffer)
            }
        }
    }

    fn finish(self) -> Bytes {
        match self {
            Self::Nothing => Bytes::new(),
            Self::One(data) => data,
            Self::Many(buffer) => buffer.freeze(),
        }
    }
}

/// Whether the client broke the framing or went away.
fn fault(error: &(dyn Error + 'static)) -> Refusal {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>()
            && matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData)
        {
            return Refusal::Malformed;
        }
        cause = error.source();
    }
    Refusal::Disconnected
}
