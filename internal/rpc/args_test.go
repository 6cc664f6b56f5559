package rpc

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tooldedup/dedup"
)

// TestArgsOfOneJSONName: proto2 allows two fields with one JSON name. Requests that differ in them
// are not compared as one: all but those with the first field alone are refused.
func TestArgsOfOneJSONName(t *testing.T) {
	t.Parallel()
	field := func(name string, number int32) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{
			Name: proto.String(name), Number: proto.Int32(number), JsonName: proto.String("fooBar"),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
		}
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("twice.proto"), Package: proto.String("twice"), Syntax: proto.String("proto2"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M"), Field: []*descriptorpb.FieldDescriptorProto{field("foo_bar", 1), field("fooBar", 2)}}},
	}, nil)
	require.NoError(t, err)
	fields := file.Messages().ByName("M").Fields()
	m := new(method)
	accepted := 0
	for _, set := range [][]protoreflect.FieldNumber{{1}, {2}, {1, 2}} {
		request := dynamicpb.NewMessage(file.Messages().ByName("M"))
		for _, number := range set {
			request.Set(fields.ByNumber(number), protoreflect.ValueOfString("x"))
		}
		_, err := m.args(request)
		if err == nil {
			accepted++
		} else {
			require.ErrorIs(t, err, dedup.ErrInvalid, set)
		}
		_, ofTool := m.toolArgs(request)
		if len(set) == 1 {
			require.NoError(t, ofTool, "the tool has one argument of this name")
			continue
		}
		require.ErrorIs(t, err, dedup.ErrInvalid)
		require.ErrorIs(t, ofTool, dedup.ErrInvalid)
	}
	require.Equal(t, 1, accepted)
}
