package rpc

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool"
)

// Domain is the domain of the google.rpc.ErrorInfo of every status that this package makes. The
// reason is a door.Code in capitals.
const Domain = "io.github.tooldedup"

// codes maps the reasons for an answer without a result to codes. Any other reason is INTERNAL.
var codes = map[door.Code]code.Code{
	door.KeyRequired:      code.Code_INVALID_ARGUMENT,
	door.KeyInvalid:       code.Code_INVALID_ARGUMENT,
	door.ArgumentsInvalid: code.Code_INVALID_ARGUMENT,
	door.KeyReused:        code.Code_FAILED_PRECONDITION,
	door.Expired:          code.Code_FAILED_PRECONDITION,
	door.Refused:          code.Code_FAILED_PRECONDITION,
	door.Blocked:          code.Code_FAILED_PRECONDITION,
	door.Parked:           code.Code_FAILED_PRECONDITION,
	door.InFlight:         code.Code_ABORTED,
	door.OutcomeUnknown:   code.Code_UNAVAILABLE,
	door.Unavailable:      code.Code_UNAVAILABLE,
	door.Timeout:          code.Code_UNAVAILABLE,
	door.Unidentified:     code.Code_UNAUTHENTICATED,
}

// words are those that clients of RPCs know.
func (d *Door) words() door.Words {
	return door.Words{
		Arguments: "fields", Same: "with the same key and the same fields",
		New: "send it with a new key", RetryAfter: d.opts.RetryAfter,
	}
}

// status turns an error of a call into the client's status. OnError gets an error that is the
// server's fault.
func (d *Door) status(ctx context.Context, m *method, inv tool.Invocation, err error) *status.Status {
	words := d.words()
	if m.tool != nil {
		words.Key = m.tool.Key
		words.Keyless = inv.Key == "" && len(m.tool.Key) == 0
	}
	var key *keyError
	if errors.As(err, &key) {
		return m.newStatus(key.code, codes[key.code], key.reason, nil)
	}
	f := door.FailureOf(m.recordedAs(), err)
	of, known := codes[f.Code]
	if !known {
		of, f.Code = code.Code_INTERNAL, door.Failed
	}
	text := words.Text(f)
	metadata := map[string]string{}
	switch f.Code {
	case door.KeyReused:
		metadata["changed"] = strings.Join(f.Record.Changed, ",")
		metadata["complete"] = strconv.FormatBool(f.Record.Complete)
		metadata["created_at"] = f.Record.CreatedAt.UTC().Format(time.RFC3339)
	case door.Expired:
		metadata["created_at"] = f.Record.CreatedAt.UTC().Format(time.RFC3339)
	case door.Refused:
		shown, hidden := door.Disclose(f.Refusal)
		if text = shown.Message; shown.Code != "" {
			metadata["code"] = shown.Code
		}
		if hidden {
			d.opts.OnError(context.WithValue(ctx, door.InvocationKey{}, inv), m.name, err)
		}
	case door.Timeout:
		if ended := ctx.Err(); errors.Is(ended, context.Canceled) {
			of = code.Code_CANCELLED
		} else if ended != nil {
			of = code.Code_DEADLINE_EXCEEDED
		}
	case door.Failed, door.Blocked:
		d.opts.OnError(context.WithValue(ctx, door.InvocationKey{}, inv), m.name, err)
	}
	var wait time.Duration
	switch f.Code {
	case door.InFlight, door.OutcomeUnknown, door.Unavailable:
		wait = d.opts.RetryAfter
	case door.Parked:
		wait = f.State().RetryAfter(d.opts.RetryAfter)
	}
	return m.newStatus(f.Code, of, text, metadata, retryInfo(wait)...)
}

// RetryAfter is the delay of a status's RetryInfo, 0 if it has none.
func RetryAfter(s *status.Status) time.Duration {
	for _, packed := range s.GetDetails() {
		info := new(errdetails.RetryInfo)
		if packed.MessageIs(info) && packed.UnmarshalTo(info) == nil {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

func retryInfo(wait time.Duration) []proto.Message {
	if wait == 0 {
		return nil
	}
	return []proto.Message{&errdetails.RetryInfo{RetryDelay: durationpb.New(wait)}}
}

// noScope is the status of a request for which Options.Scope has an error. A status OK of the error
// does not count.
func (d *Door) noScope(ctx context.Context, m *method, r Request, err error) *status.Status {
	if own := r.StatusOf(err); code.Code(own.GetCode()) != code.Code_OK {
		return own
	}
	d.opts.OnError(ctx, m.name, err)
	return m.newStatus(door.Unidentified, codes[door.Unidentified], "Nobody could be told on whose behalf the request comes. Send it with valid credentials.", nil)
}

func (m *method) newStatus(reason door.Code, of code.Code, text string, metadata map[string]string, details ...proto.Message) *status.Status {
	if metadata == nil {
		metadata = map[string]string{}
	}
	metadata["method"] = m.name
	s := &status.Status{Code: int32(of), Message: text}
	info := &errdetails.ErrorInfo{Reason: strings.ToUpper(string(reason)), Domain: Domain, Metadata: metadata}
	for _, detail := range append([]proto.Message{info}, details...) {
		if packed, err := anypb.New(detail); err == nil { // it fails for strings that are no UTF-8
			s.Details = append(s.Details, packed)
		}
	}
	return s
}

// recordedAs is the tool's name in the records of the method's calls.
func (m *method) recordedAs() string {
	if m.tool == nil {
		return m.name
	}
	return cmp.Or(m.tool.RecordedAs, m.tool.Name)
}
