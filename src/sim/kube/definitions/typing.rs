//! Works out the type of a CEL expression, and what in it cannot be.
//!
//! A mistake that is told here is one on a real server, too. The reverse does not hold: the overloads of most functions
//! are not known here, and what is not known counts as anything.

use kube::core::cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, SelectExpr,
    operators,
};

use super::types::Type;

/// What a rule can name.
#[derive(Clone, Debug)]
pub(super) struct Scope<'a>(Vec<(String, Type<'a>)>);

impl<'a> Scope<'a> {
    pub(super) fn of(variables: Vec<(String, Type<'a>)>) -> Self {
        Self(variables)
    }

    fn find(&self, name: &str) -> Option<&Type<'a>> {
        let found = self.0.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, of)| of)
    }

    fn with(&self, variables: impl IntoIterator<Item = (String, Type<'a>)>) -> Self {
        let mut all = self.0.clone();
        all.extend(variables);
        Self(all)
    }
}

/// Names of types, and of libraries.
const NAMESPACES: [&str; 17] = [
    "bool",
    "bytes",
    "cidr",
    "double",
    "duration",
    "format",
    "google",
    "int",
    "ip",
    "list",
    "map",
    "math",
    "null_type",
    "optional",
    "sets",
    "string",
    "uint",
];

/// Functions by what they give; those not named here do not exist.
const FUNCTIONS: [(Type<'static>, &str); 6] = [
    (
        Type::Bool,
        "bool contains startsWith endsWith matches isSorted isURL isQuantity isInteger isLessThan isGreaterThan isIP \
         ip.isCanonical isUnspecified isLoopback isLinkLocalMulticast isLinkLocalUnicast isGlobalUnicast isCIDR \
         containsIP containsCIDR sets.contains sets.equivalent sets.intersects hasValue isSemver @in \
         @not_strictly_false",
    ),
    (
        Type::Int,
        "int size indexOf lastIndexOf getFullYear getMonth getDate getDayOfMonth getDayOfWeek getDayOfYear getHours \
         getMinutes getSeconds getMilliseconds sign asInteger compareTo family prefixLength major minor patch",
    ),
    (Type::Double, "double asApproximateFloat"),
    (
        Type::Text,
        "string charAt lowerAscii upperAscii replace substring trim join strings.quote find getScheme getHost \
         getHostname getPort getEscapedPath reverse",
    ),
    (Type::Timestamp, "timestamp"),
    (
        Type::Dyn,
        "uint bytes dyn type duration sum min max split findAll format url getQuery quantity add sub ip cidr masked \
         semver optional.of optional.none optional.ofNonZeroValue value or orValue optMap optFlatMap validate named \
         flatten slice sort sortBy distinct lists.range first last unwrap unwrapOpt format.named format.dns1123Label \
         format.dns1123Subdomain format.dns1035Label format.qualifiedName format.dns1123LabelPrefix \
         format.dns1123SubdomainPrefix format.dns1035LabelPrefix format.labelValue format.uri format.uuid format.byte \
         format.date format.datetime isCanonical of none ofNonZeroValue quote equivalent intersects dns1123Label \
         dns1123Subdomain dns1035Label qualifiedName dns1123LabelPrefix dns1123SubdomainPrefix dns1035LabelPrefix \
         labelValue uri uuid byte date datetime",
    ),
];

/// Methods that only texts have.
const OF_TEXTS: [&str; 12] = [
    "startsWith",
    "endsWith",
    "matches",
    "charAt",
    "lowerAscii",
    "upperAscii",
    "replace",
    "split",
    "substring",
    "trim",
    "find",
    "findAll",
];

/// The type of an expression, or the first mistake in it.
pub(super) fn check<'a>(expression: &IdedExpr, scope: &Scope<'a>) -> Result<Type<'a>, String> {
    match &expression.expr {
        Expr::Ident(name) => ident(name, scope),
        Expr::Literal(literal) => Ok(of_literal(literal)),
        Expr::Select(select) => select_type(select, scope),
        Expr::Call(call) => call_type(call, scope),
        Expr::List(list) => list_type(list, scope),
        Expr::Map(map) => map_type(map, scope),
        Expr::Comprehension(comprehension) => comprehension_type(comprehension, scope),
        Expr::Struct(structure) => Err(format!("undeclared reference to '{}'", structure.type_name)),
        Expr::Unspecified => Ok(Type::Dyn),
    }
}

fn ident<'a>(name: &str, scope: &Scope<'a>) -> Result<Type<'a>, String> {
    match scope.find(name) {
        Some(of) => Ok(of.clone()),
        None if NAMESPACES.contains(&name) => Ok(Type::Dyn),
        None => Err(format!("undeclared reference to '{name}' (in container '')")),
    }
}

fn of_literal<'a>(literal: &LiteralValue) -> Type<'a> {
    match literal {
        LiteralValue::Boolean(_) => Type::Bool,
        LiteralValue::Bytes(_) => Type::Bytes,
        LiteralValue::Double(_) => Type::Double,
        LiteralValue::Int(_) => Type::Int,
        LiteralValue::Null => Type::Null,
        LiteralValue::String(_) => Type::Text,
        LiteralValue::UInt(_) => Type::Uint,
    }
}

fn select_type<'a>(select: &SelectExpr, scope: &Scope<'a>) -> Result<Type<'a>, String> {
    let operand = check(&select.operand, scope)?;
    let found = operand.field(&select.field).ok_or_else(|| match operand {
        Type::Object(_) | Type::Resource(_) | Type::Metadata => format!("undefined field '{}'", select.field),
        _ => format!("type '{}' does not support field selection", operand.name()),
    })?;
    Ok(if select.test { Type::Bool } else { found })
}

fn list_type<'a>(list: &ListExpr, scope: &Scope<'a>) -> Result<Type<'a>, String> {
    let mut items = Type::Dyn;
    for element in &list.elements {
        let found = check(element, scope)?;
        items = if items.agrees_with(&found) {
            items.join(found)
        } else {
            Type::Dyn
        };
    }
    Ok(Type::List(Box::new(items)))
}

fn map_type<'a>(map: &MapExpr, scope: &Scope<'a>) -> Result<Type<'a>, String> {
    for entry in &map.entries {
        match &entry.expr {
            EntryExpr::MapEntry(entry) => {
                check(&entry.key, scope)?;
                check(&entry.value, scope)?;
            }
            EntryExpr::StructField(field) => {
                check(&field.value, scope)?;
            }
        }
    }
    Ok(Type::Map(Box::new(Type::Dyn)))
}

fn comprehension_type<'a>(of: &ComprehensionExpr, scope: &Scope<'a>) -> Result<Type<'a>, String> {
    let range = check(&of.iter_range, scope)?;
    let (key, item) = match range {
        Type::List(items) => (Type::Int, *items),
        Type::Map(values) if of.iter_var2.is_some() => (Type::Text, *values),
        Type::Map(_) => (Type::Text, Type::Text),
        Type::Dyn => (Type::Dyn, Type::Dyn),
        other => {
            let name = other.name();
            return Err(format!(
                "expression of type '{name}' cannot be range of a comprehension"
            ));
        }
    };
    let variables = match &of.iter_var2 {
        Some(second) => vec![(of.iter_var.clone(), key), (second.clone(), item)],
        None => vec![(of.iter_var.clone(), item)],
    };
    let start = check(&of.accu_init, scope)?;
    let inside = scope.with(variables).with([(of.accu_var.clone(), start.clone())]);
    check(&of.loop_cond, &inside)?;
    let end = start.join(check(&of.loop_step, &inside)?);
    check(&of.result, &scope.with([(of.accu_var.clone(), end)]))
}

fn call_type<'a>(call: &CallExpr, scope: &Scope<'a>) -> Result<Type<'a>, String> {
    let name = call.func_name.as_str();
    let operands: Vec<Type<'a>> = call
        .args
        .iter()
        .map(|argument| check(argument, scope))
        .collect::<Result<_, _>>()?;
    if let Some(target) = &call.target {
        return method_type(name, &check(target, scope)?, &operands);
    }
    let given = |is: fn(&Type<'_>) -> bool| operands.iter().all(is);
    let fits = |fits: bool, gives: Type<'a>| {
        if fits {
            Ok(gives)
        } else {
            Err(mismatch(name, &operands))
        }
    };
    let numbers = operands.iter().all(Type::is_number);
    let agree = match operands.as_slice() {
        [one, other] => one.agrees_with(other),
        _ => true,
    };
    match name {
        operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT => {
            fits(given(|of| matches!(of, Type::Bool | Type::Dyn)), Type::Bool)
        }
        operators::EQUALS | operators::NOT_EQUALS => fits(agree, Type::Bool),
        operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS => {
            let ordered =
                given(|of| !matches!(of, Type::List(_) | Type::Map(_) | Type::Object(_) | Type::Null));
            fits(ordered && (agree || numbers), Type::Bool)
        }
        operators::CONDITIONAL => conditional(name, &operands),
        operators::INDEX => index(name, &operands),
        operators::IN => contained(name, &operands),
        operators::ADD | operators::SUBSTRACT => sum(name, &operands),
        operators::MULTIPLY | operators::DIVIDE | operators::MODULO | operators::NEGATE => {
            let gives = operands.iter().cloned().reduce(Type::join).unwrap_or(Type::Dyn);
            fits(agree && numbers, gives)
        }
        operators::OPT_INDEX | operators::OPT_SELECT => Ok(Type::Dyn),
        _ => function_type(name),
    }
}

fn mismatch(name: &str, operands: &[Type<'_>]) -> String {
    let names: Vec<String> = operands.iter().map(Type::name).collect();
    let names = names.join(", ");
    format!("found no matching overload for '{name}' applied to '({names})'")
}

fn conditional<'a>(name: &str, operands: &[Type<'a>]) -> Result<Type<'a>, String> {
    let [condition, one, other] = operands else {
        return Ok(Type::Dyn);
    };
    if !condition.agrees_with(&Type::Bool) || !one.agrees_with(other) {
        return Err(mismatch(name, operands));
    }
    Ok(one.clone().join(other.clone()))
}

fn index<'a>(name: &str, operands: &[Type<'a>]) -> Result<Type<'a>, String> {
    match operands {
        [Type::List(items), Type::Int | Type::Dyn] => Ok((**items).clone()),
        [Type::Map(values), Type::Text | Type::Dyn] => Ok((**values).clone()),
        [Type::Dyn, _] => Ok(Type::Dyn),
        _ => Err(mismatch(name, operands)),
    }
}

fn contained<'a>(name: &str, operands: &[Type<'a>]) -> Result<Type<'a>, String> {
    let fits = match operands {
        [_, Type::Dyn] => true,
        [item, Type::List(items)] => item.agrees_with(items),
        [item, Type::Map(_)] => item.agrees_with(&Type::Text) || *item == Type::Dyn,
        _ => false,
    };
    if fits {
        Ok(Type::Bool)
    } else {
        Err(mismatch(name, operands))
    }
}

fn sum<'a>(name: &str, operands: &[Type<'a>]) -> Result<Type<'a>, String> {
    let is_time = |of: &Type<'_>| matches!(of, Type::Timestamp | Type::Duration | Type::Dyn);
    match operands {
        [one, other] if is_time(one) && is_time(other) => Ok(Type::Dyn),
        [one, other] if !one.agrees_with(other) => Err(mismatch(name, operands)),
        [Type::Bool | Type::Null | Type::Map(_) | Type::Object(_), _] => Err(mismatch(name, operands)),
        [Type::Text | Type::List(_) | Type::Bytes, _] if name == operators::SUBSTRACT => {
            Err(mismatch(name, operands))
        }
        [one, other] => Ok(one.clone().join(other.clone())),
        _ => Ok(Type::Dyn),
    }
}

fn function_type<'a>(name: &str) -> Result<Type<'a>, String> {
    let found = FUNCTIONS
        .iter()
        .find(|(_, names)| names.split_ascii_whitespace().any(|known| known == name));
    found
        .map(|(gives, _)| gives.clone())
        .ok_or_else(|| format!("undeclared reference to '{name}' (in container '')"))
}

fn method_type<'a>(name: &str, target: &Type<'a>, operands: &[Type<'a>]) -> Result<Type<'a>, String> {
    let gives = function_type(name)?;
    let unfit = OF_TEXTS.contains(&name) && !target.agrees_with(&Type::Text)
        || name == "size"
            && !matches!(
                target,
                Type::Dyn | Type::Text | Type::Bytes | Type::List(_) | Type::Map(_)
            );
    if unfit {
        let all: Vec<Type<'a>> = [target.clone()]
            .into_iter()
            .chain(operands.iter().cloned())
            .collect();
        return Err(mismatch(name, &all));
    }
    // Those of texts and of lists have the same names.
    let is_of_list =
        matches!(target, Type::List(_) | Type::Dyn) && matches!(name, "reverse" | "min" | "max" | "sum");
    Ok(if is_of_list || name == "contains" && *target == Type::Dyn {
        Type::Dyn
    } else {
        gives
    })
}
