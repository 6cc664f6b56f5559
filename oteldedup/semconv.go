package oteldedup

import (
	"go.opentelemetry.io/otel/attribute"
	// OpenTelemetry's names come from its semantic conventions 1.41.0, the
	// last version with the names gen_ai. They have moved to another repository,
	// which is not stable, and may change. No other file imports this package.
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
)

const schemaURL = semconv.SchemaURL

// OpenTelemetry's names.
const (
	toolNameKey  = semconv.GenAIToolNameKey
	errorTypeKey = semconv.ErrorTypeKey

	executeTool = "execute_tool"
)

var (
	operation      = semconv.GenAIOperationNameExecuteTool
	toolType       = semconv.GenAIToolTypeKey.String("function")
	errorTypeOther = semconv.ErrorTypeOther.Value.AsString()
)

// errorType names an error by its Go type.
func errorType(err error) string { return semconv.ErrorType(err).Value.AsString() }

// This library's own names, for which OpenTelemetry has none.
const (
	outcomeKey      = attribute.Key("dedup.outcome")
	functionKey     = attribute.Key("dedup.function")
	keyHashKey      = attribute.Key("dedup.key.hash")
	replayedKey     = attribute.Key("dedup.replayed")
	recoveredKey    = attribute.Key("dedup.recovered")
	attemptsKey     = attribute.Key("dedup.attempts")
	createdAtKey    = attribute.Key("dedup.created_at")
	inProcessKey    = attribute.Key("dedup.wait.in_process")
	sweepKindKey    = attribute.Key("dedup.sweep.kind")
	externalStepKey = attribute.Key("dedup.external.step")
)
