//! Files of the page.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::body::Body;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use ostler_page::assets::{self, Asset};
use sha2::{Digest, Sha256};

use super::{Reply, not_found};

/// Headers of every file: it loads nothing from elsewhere, is not embedded anywhere, and creates
/// HTML only through one policy.
const HEADERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
         img-src 'self' data:; worker-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types ostler",
    ),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (header::CACHE_CONTROL, "no-cache"),
];

/// Tags of all files by name. A file does not change while the program runs.
static TAGS: LazyLock<HashMap<&'static str, HeaderValue>> = LazyLock::new(|| {
    let tag = |asset: Asset| {
        Some((
            asset.name,
            HeaderValue::from_str(&etag(asset.content)).ok()?,
        ))
    };
    assets::all().filter_map(tag).collect()
});

/// Names all scripts, so that a browser loads them at once instead of one import after another.
static PRELOADS: LazyLock<Option<HeaderValue>> = LazyLock::new(|| {
    let scripts = assets::all().filter(|asset| asset.name.ends_with(".js"));
    let links = scripts.map(|asset| format!("</assets/{}>; rel=modulepreload", asset.name));
    HeaderValue::from_str(&links.collect::<Vec<_>>().join(", ")).ok()
});

pub(super) async fn index(headers: HeaderMap) -> Reply {
    let mut response = file("index.html", &headers).await?;
    if let Some(links) = &*PRELOADS {
        response.headers_mut().insert(header::LINK, links.clone());
    }
    Ok(response)
}

pub(super) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Reply {
    file(&name, &headers).await
}

async fn file(name: &str, headers: &HeaderMap) -> Reply {
    let Some(asset) = assets::get(name) else {
        return Err(not_found().await);
    };
    let tag = TAGS.get(asset.name);
    let is_known = tag.is_some() && headers.get(header::IF_NONE_MATCH) == tag;
    let mut response = Response::new(if is_known {
        Body::empty()
    } else {
        Body::from(asset.content)
    });
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let all = response.headers_mut();
    let kind = HeaderValue::from_static(asset.media_type());
    all.insert(header::CONTENT_TYPE, kind);
    for (name, value) in HEADERS {
        all.insert(name, HeaderValue::from_static(value));
    }
    if let Some(tag) = tag {
        all.insert(header::ETAG, tag.clone());
    }
    Ok(response)
}

/// Returns the tag of a file's content.
fn etag(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    let hex: String = hash
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("\"{hex}\"")
}
