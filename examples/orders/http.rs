//! The service's routes, and what a request does.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Json;
use axum::routing::{get, post};
use serde::Deserialize;
use tower_http::trace::TraceLayer;
use tracebraid::{event, tracepoint};

use crate::error::Error;
use crate::ledger::{Ledger, Receipt};
use crate::shipping::{Parcel, Shipping};
use crate::stock::Stock;

/// Receipts that are kept in memory.
const CACHED: usize = 256;

/// Everything a request needs.
pub(crate) struct Service {
    ledger: Ledger,
    stock: Arc<Stock>,
    shipping: Shipping,
    next_id: AtomicU64,
    cache: Mutex<HashMap<u64, Receipt>>,
}

/// The body of `POST /orders`.
#[derive(Deserialize)]
struct NewOrder {
    user: User,
    cents: i64,
    items: Vec<String>,
}

/// Who orders.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
struct User {
    name: String,
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// An order with its number.
struct Order {
    id: u64,
    cents: i64,
    items: Vec<String>,
}

impl Service {
    /// A service that numbers its orders where `ledger` ends.
    pub(crate) fn new(
        ledger: Ledger,
        stock: Arc<Stock>,
        shipping: Shipping,
    ) -> Result<Service, Error> {
        let next_id = AtomicU64::new(ledger.next_id()?);
        Ok(Service {
            ledger,
            stock,
            shipping,
            next_id,
            cache: Mutex::default(),
        })
    }
}

/// What is served.
pub(crate) fn routes(service: Arc<Service>) -> axum::Router {
    axum::Router::new()
        .route("/orders", post(post_order))
        .route("/orders/{id}", get(get_order))
        .layer(TraceLayer::new_for_http())
        .with_state(service)
}

async fn post_order(
    State(service): State<Arc<Service>>,
    Json(new): Json<NewOrder>,
) -> Result<(StatusCode, Json<Receipt>), Error> {
    let id = service.next_id.fetch_add(1, Ordering::Relaxed);
    let order = Order {
        id,
        cents: new.cents,
        items: new.items,
    };
    let receipt = checkout(&service, order, new.user).await?;
    Ok((StatusCode::CREATED, Json(receipt)))
}

async fn get_order(
    State(service): State<Arc<Service>>,
    Path(id): Path<u64>,
) -> Result<Json<Receipt>, Error> {
    Ok(Json(look_up(&service, id).await?))
}

/// Reserves, charges and hands over to shipping.
#[tracepoint(skip_all, fields(order = order.id, %user, items = order.items.len()), err)]
async fn checkout(service: &Arc<Service>, order: Order, user: User) -> Result<Receipt, Error> {
    service.stock.reserve(&order.items)?;
    let charged = blocking(service, {
        let user = user.clone();
        move |service| service.ledger.charge(order.id, &user.name, order.cents)
    });
    let receipt = match charged.await {
        Ok(receipt) => receipt,
        Err(error) => {
            service.stock.release(&order.items);
            return Err(error);
        }
    };
    service.shipping.enqueue(Parcel {
        id: order.id,
        user: user.name,
        items: order.items,
    })?;
    Ok(receipt)
}

/// Finds a receipt in the cache or in the ledger.
#[tracepoint(skip(service), err)]
async fn look_up(service: &Arc<Service>, id: u64) -> Result<Receipt, Error> {
    if let Some(receipt) = service.cached(id) {
        return Ok(receipt);
    }
    event!(
        orders::cache_miss,
        key = id,
        cached = service.cached_count()
    );
    let found = blocking(service, move |service| service.ledger.find(id)).await?;
    let receipt = found.ok_or(Error::NotFound(id))?;
    service.remember(&receipt);
    Ok(receipt)
}

/// Runs what may wait for the disk on a thread that may.
async fn blocking<T: Send + 'static>(
    service: &Arc<Service>,
    work: impl FnOnce(&Service) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let service = Arc::clone(service);
    tokio::task::spawn_blocking(move || work(&service))
        .await
        .map_err(|_| Error::Interrupted)?
}

impl Service {
    fn cached(&self, id: u64) -> Option<Receipt> {
        self.cache
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&id)
            .cloned()
    }

    fn cached_count(&self) -> usize {
        self.cache
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// Keeps the receipt; a full cache starts afresh.
    fn remember(&self, receipt: &Receipt) {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= CACHED {
            cache.clear();
        }
        cache.insert(receipt.order, receipt.clone());
    }
}
