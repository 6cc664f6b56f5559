package oteldedup

import (
	"go.opentelemetry.io/otel/attribute"
	// The names of OpenTelemetry are those of its semantic conventions 1.41.0. That is the
	// last version with the names gen_ai: since then they are in a repository of their own,
	// which is not stable, and may change. No other file imports this package.
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
)

const schemaURL = semconv.SchemaURL

// Names of OpenTelemetry.
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

// errorType names an error by its type in Go.
func errorType(err error) string { return semconv.ErrorType(err).Value.AsString() }

// Names of this library, for which OpenTelemetry has none.
const (
	outcomeKey      = attribute.Key("dedup.outcome")
	functionKey     = attribute.Key("dedup.function")
	keyHashKey      = attribute.Key("dedup.key.hash")
	replayedKey     = attribute.Key("dedup.replayed")
	recoveredKey    = attribute.Key("dedup.recovered")
	attemptsKey     = attribute.Key("dedup.attempts")
	firstAtKey      = attribute.Key("dedup.first_at")
	inProcessKey    = attribute.Key("dedup.wait.in_process")
	sweepKindKey    = attribute.Key("dedup.sweep.kind")
	externalStepKey = attribute.Key("dedup.external.step")
)
