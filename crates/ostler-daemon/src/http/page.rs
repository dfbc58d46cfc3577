//! Files of the page. Their addresses contain a version, so a browser asks for each of them once.

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
const HEADERS: [(HeaderName, &str); 4] = [
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
];

/// A file that may change with the next version of the program.
const REVALIDATE: HeaderValue = HeaderValue::from_static("no-cache");

/// A file with the version in its address.
const IMMUTABLE: HeaderValue = HeaderValue::from_static("max-age=31536000, immutable");

/// Version of all files together. Imports are relative, so a script loads others of its version.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for asset in assets::all() {
        hash.update(asset.name);
        hash.update(asset.content);
    }
    hex(&hash.finalize())
});

/// The document, which names files with their version, and its tag.
static INDEX: LazyLock<Option<(String, HeaderValue)>> = LazyLock::new(|| {
    let text = assets::get("index.html")?.text()?;
    let text = text.replace("\"/assets/", &format!("\"/assets/{}/", *VERSION));
    let tag = HeaderValue::from_str(&etag(text.as_bytes())).ok()?;
    Some((text, tag))
});

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
    let link = |asset: Asset| {
        let (version, name) = (&*VERSION, asset.name);
        format!("</assets/{version}/{name}>; rel=modulepreload")
    };
    let links = scripts.map(link);
    HeaderValue::from_str(&links.collect::<Vec<_>>().join(", ")).ok()
});

pub(super) async fn index(headers: HeaderMap) -> Reply {
    let Some((text, tag)) = &*INDEX else {
        return Err(not_found().await);
    };
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    let mut response = respond(text.as_bytes(), kind, Some(tag), &headers);
    if let Some(links) = &*PRELOADS {
        response.headers_mut().insert(header::LINK, links.clone());
    }
    Ok(response)
}

pub(super) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Reply {
    file(&name, &headers).await
}

/// Answers with a file of this version. Another version has other files.
pub(super) async fn versioned_asset(
    Path((version, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Reply {
    if version != *VERSION {
        return Err(not_found().await);
    }
    let mut response = file(&name, &headers).await?;
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, IMMUTABLE);
    Ok(response)
}

async fn file(name: &str, headers: &HeaderMap) -> Reply {
    let Some(asset) = assets::get(name) else {
        return Err(not_found().await);
    };
    let kind = HeaderValue::from_static(asset.media_type());
    let tag = TAGS.get(asset.name);
    Ok(respond(asset.content, kind, tag, headers))
}

/// Returns the content, unless the client has it.
fn respond(
    content: &'static [u8],
    kind: HeaderValue,
    tag: Option<&HeaderValue>,
    headers: &HeaderMap,
) -> Response<Body> {
    let is_known = tag.is_some() && headers.get(header::IF_NONE_MATCH) == tag;
    let mut response = Response::new(if is_known {
        Body::empty()
    } else {
        Body::from(content)
    });
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let all = response.headers_mut();
    all.insert(header::CONTENT_TYPE, kind);
    all.insert(header::CACHE_CONTROL, REVALIDATE);
    for (name, value) in HEADERS {
        all.insert(name, HeaderValue::from_static(value));
    }
    if let Some(tag) = tag {
        all.insert(header::ETAG, tag.clone());
    }
    response
}

/// Returns the tag of a file's content.
fn etag(bytes: &[u8]) -> String {
    format!("\"{}\"", hex(&Sha256::digest(bytes)))
}

/// Returns the first half of a hash as text.
fn hex(hash: &[u8]) -> String {
    let bytes = hash.iter().take(16);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}
