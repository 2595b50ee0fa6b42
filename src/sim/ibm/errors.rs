//! How the services say no. Each has its own shape; the status and the code carry the meaning, the message is prose.

use http::StatusCode;
use serde_json::{Value, json};

/// A request that is not carried out, and why.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) code: String,
    pub(super) message: String,
    pub(super) target: Option<Box<Target>>,
    pub(super) retry_after: Option<String>,
}

/// The part of a request that is to blame.
#[derive(Clone, Debug)]
pub(super) struct Target {
    kind: &'static str,
    name: String,
    value: Option<String>,
}

/// Which service answers, for each writes errors its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    Vpc,
    Iam,
    /// The metadata service of an instance, through which a VM gets its identity.
    Identity,
    Catalog,
    Tags,
    Search,
    ResourceManager,
    /// The simulator's own control routes.
    Control,
    /// A path that no service has.
    Nobody,
}

impl Refusal {
    fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self {
            status,
            code: code.into(),
            message: message.into(),
            target: None,
            retry_after: None,
        }
    }

    /// 400 because of a field of the body.
    pub(super) fn field(code: &str, name: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message).blames("field", name, None)
    }

    /// 400 because of a query parameter.
    pub(super) fn parameter(code: &str, name: &str, value: Option<&str>, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message).blames("parameter", name, value)
    }

    /// 400 because of a header.
    pub(super) fn header(code: &str, name: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message).blames("header", name, None)
    }

    /// 400 because a name is taken. The API says 400 where others say 409.
    pub(super) fn taken(field: &str, name: &str) -> Self {
        let message = format!("Provided Name ({name}) is not unique");
        Self::new(StatusCode::BAD_REQUEST, "validation_unique_failed", message).blames(
            "field",
            field,
            Some(name),
        )
    }

    /// 404: there is no such thing, or it may not be seen.
    pub(super) fn not_found(kind: &str, id: &str) -> Self {
        let message = format!("The {kind} '{id}' was not found.");
        Self::new(StatusCode::NOT_FOUND, "not_found", message).blames("field", "id", Some(id))
    }

    /// 409: not in this state.
    pub(super) fn conflict(code: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    /// Any other status.
    pub(super) fn status(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self::new(status, code, message)
    }

    /// 5xx in IBM's usual words.
    pub(super) fn server(status: StatusCode) -> Self {
        let code = match status {
            StatusCode::SERVICE_UNAVAILABLE => "backend_service_unavailable",
            StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => "service_manager_service_failure",
            _ => "internal_error",
        };
        Self::new(
            status,
            code,
            "The system is currently unable to fulfill the request. Please retry. If the failure persists, contact \
             support and provide the trace value from this error.",
        )
    }

    /// Says which part of the request is to blame.
    pub(super) fn blames(mut self, kind: &'static str, name: impl Into<String>, value: Option<&str>) -> Self {
        self.target = Some(Box::new(Target {
            kind,
            name: name.into(),
            value: value.map(Into::into),
        }));
        self
    }

    /// The body, as `service` writes it.
    pub(super) fn body(&self, service: Service, trace: &str) -> Value {
        match service {
            Service::Vpc | Service::Nobody => json!({ "errors": [self.error()], "trace": trace }),
            Service::Iam => json!({
                "errorCode": self.code,
                "errorMessage": self.message,
                "errorDetails": self.message,
                "context": { "requestId": trace, "url": "https://iam.cloud.ibm.com" },
            }),
            Service::Control => {
                let choices: Vec<&str> = self
                    .target
                    .iter()
                    .filter_map(|target| target.value.as_deref())
                    .flat_map(str::lines)
                    .collect();
                json!({ "error": self.message, "choices": choices })
            }
            _ => json!({
                "status_code": self.status.as_u16(),
                "errors": [{ "code": self.code, "message": self.message }],
                "trace": trace,
            }),
        }
    }

    fn error(&self) -> Value {
        let mut error = json!({
            "code": self.code,
            "message": self.message,
            "more_info": format!("https://cloud.ibm.com/docs/vpc?topic=vpc-rias-error-messages#{}", self.code),
        });
        if let Some(target) = &self.target {
            error["target"] = json!({ "name": target.name, "type": target.kind });
            if let Some(value) = &target.value {
                error["target"]["value"] = json!(value);
            }
        }
        error
    }
}
