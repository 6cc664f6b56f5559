package rpctest

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tooldedup/dedup/internal/rpc"
	"github.com/tooldedup/dedup/internal/rpc/rpctest/shop"
)

// requests are pairs of requests with one key, both variants of lamp. changed has the fields that
// the answer to the second request names. It is nil if the second is a retry of the first.
var requests = map[string]struct {
	a, b    func(r *shop.CreateRequest)
	changed []string
}{
	"the same":                    {},
	"the field of the key":        {b: func(r *shop.CreateRequest) { r.RequestId = "k" }},
	"unknown fields in any order": {a: withUnknown(unknown(90, "x"), unknown(91, "y")), b: withUnknown(unknown(91, "y"), unknown(90, "x"))},
	"an empty list and none":      {a: func(r *shop.CreateRequest) { r.Lines = nil }, b: func(r *shop.CreateRequest) { r.Lines = []*shop.Line{} }},
	"a default and none":          {a: func(r *shop.CreateRequest) { r.Weight = 0 }, b: func(r *shop.CreateRequest) { r.Weight = 0 }},
	"an Any of another encoding": {
		a: func(r *shop.CreateRequest) { r.Note = note(`{"a":1}`, false) },
		b: func(r *shop.CreateRequest) { r.Note = note(`{"a":1}`, true) },
	},

	"another text":               {b: func(r *shop.CreateRequest) { r.Item = "Lamp" }, changed: []string{"item"}},
	"a number beyond 2^53":       {b: func(r *shop.CreateRequest) { r.Amount = 1 << 53 }, changed: []string{"amount"}},
	"a list in another order":    {b: func(r *shop.CreateRequest) { r.Lines[0], r.Lines[1] = r.Lines[1], r.Lines[0] }, changed: []string{"lines"}},
	"a member of a map":          {b: func(r *shop.CreateRequest) { r.ByName["x"].Count = 1 }, changed: []string{"byName"}},
	"one more of a map":          {b: func(r *shop.CreateRequest) { r.ByName["w"] = &shop.Line{} }, changed: []string{"byName"}},
	"set to its default":         {b: func(r *shop.CreateRequest) { r.Coupon = new(string) }, changed: []string{"coupon"}},
	"an empty message and none":  {a: func(r *shop.CreateRequest) { r.Due = nil }, b: func(r *shop.CreateRequest) { r.Due = &timestamppb.Timestamp{} }, changed: []string{"due"}},
	"a nanosecond":               {b: func(r *shop.CreateRequest) { r.Due.Nanos = 1 }, changed: []string{"due"}},
	"NaN and 0":                  {b: func(r *shop.CreateRequest) { r.Weight = math.NaN() }, changed: []string{"weight"}},
	"one bit of a number":        {b: func(r *shop.CreateRequest) { r.Weight = math.Nextafter(1.5, 2) }, changed: []string{"weight"}},
	"a byte":                     {b: func(r *shop.CreateRequest) { r.Photo[1] = 254 }, changed: []string{"photo"}},
	"another of a oneof":         {b: func(r *shop.CreateRequest) { r.To = &shop.CreateRequest_Shop{Shop: "Main Street 1"} }, changed: []string{"address", "shop"}},
	"an enum's number":           {b: func(r *shop.CreateRequest) { r.Color = 17 }, changed: []string{"color"}},
	"what an Any holds":          {a: func(r *shop.CreateRequest) { r.Note = note("x", false) }, b: func(r *shop.CreateRequest) { r.Note = note("y", false) }, changed: []string{"note"}},
	"an unknown field":           {b: withUnknown(unknown(90, "x")), changed: []string{"(unknown fields)"}},
	"an unknown field's value":   {a: withUnknown(unknown(90, "x")), b: withUnknown(unknown(90, "y")), changed: []string{"(unknown fields)"}},
	"unknown fields of a number": {a: withUnknown(unknown(90, "x"), unknown(90, "y")), b: withUnknown(unknown(90, "y"), unknown(90, "x")), changed: []string{"(unknown fields)"}},
	"an unknown field of a list": {b: func(r *shop.CreateRequest) { r.Lines[1].ProtoReflect().SetUnknown(unknown(90, "x")) }, changed: []string{"(unknown fields)"}},
	"an unknown field of a map":  {b: func(r *shop.CreateRequest) { r.ByName["y"].ProtoReflect().SetUnknown(unknown(90, "x")) }, changed: []string{"(unknown fields)"}},
	"an unknown field elsewhere": {
		a:       func(r *shop.CreateRequest) { r.Lines[0].ProtoReflect().SetUnknown(unknown(90, "x")) },
		b:       func(r *shop.CreateRequest) { r.Lines[1].ProtoReflect().SetUnknown(unknown(90, "x")) },
		changed: []string{"(unknown fields)"},
	},
}

// pairs: a request is a retry if and only if it asks for the same.
func (door Door) pairs(t *testing.T) {
	s := door.open(t, rpc.Options{}, nil)
	for name, pair := range requests {
		a, b := lamp(), lamp()
		if pair.a != nil {
			pair.a(a)
		}
		if pair.b != nil {
			pair.b(b)
		}
		key := strings.ReplaceAll("k "+name, " ", "_")
		key = `"` + strings.ReplaceAll(key, `"`, "") + `"`
		if b.GetRequestId() != "" {
			b.RequestId = strings.Trim(key, `"`)
		}
		_, answer := s.order(t, a, key)
		require.Nil(t, answer.Status, name)
		_, answer = s.order(t, b, key)
		if pair.changed == nil || !door.Unknown && pair.changed[0] == "(unknown fields)" { // which are not sent
			require.Nil(t, answer.Status, "%s: %v", name, answer.Status)
			require.True(t, answer.Replayed, name)
			continue
		}
		require.Equal(t, int32(code.Code_FAILED_PRECONDITION), answer.Status.GetCode(), name)
		info, _ := details(t, answer.Status)
		require.Equal(t, "KEY_REUSED", info.GetReason(), name)
		require.Equal(t, strings.Join(pair.changed, ","), info.GetMetadata()["changed"], name)
	}
	require.Equal(t, len(requests), s.rows(t))
}

func withUnknown(fields ...[]byte) func(*shop.CreateRequest) {
	return func(r *shop.CreateRequest) {
		var all []byte
		for _, f := range fields {
			all = append(all, f...)
		}
		r.ProtoReflect().SetUnknown(all)
	}
}

func unknown(number protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), text)
}

// note is a Line in an Any, whose fields are encoded in one order or the other.
func note(sku string, reversed bool) *anypb.Any {
	first := unknown(1, sku)
	second := protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 7)
	if reversed {
		first, second = second, first
	}
	return &anypb.Any{TypeUrl: "type.googleapis.com/shop.v1.Line", Value: append(first, second...)}
}
