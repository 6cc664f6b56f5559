package rpc

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool"
)

// method is a unary method that the door intercepts.
type method struct {
	name string // such as "shop.v1.Orders/Create": the tool of its calls
	out  protoreflect.MessageDescriptor
	// requestID is the field request_id of AIP-155. It is nil if the request has none, or if the
	// field is an argument of tool.
	requestID protoreflect.FieldDescriptor
	retention dedup.Retention
	// tool answers instead of the handler. It is nil if the handler answers.
	tool *tool.Info
}

// findAll looks up every method that the options name. A method that changes nothing by its
// definition (NO_SIDE_EFFECTS) is left out.
func findAll(d *dedup.Deduper, opts Options) (map[string]*method, error) {
	methods := make(map[string]*method)
	add := func(option, path string) (*method, error) {
		descriptor, problem := find(path)
		if problem != "" {
			return nil, invalid(option, "has %q, which %s", path, problem)
		}
		if changesNothing(descriptor) {
			return nil, nil
		}
		name := strings.TrimPrefix(path, "/")
		if methods["/"+name] != nil {
			return nil, invalid(option, "names %q twice", path)
		}
		m := &method{name: name, out: descriptor.Output(), requestID: requestID(descriptor.Input()), retention: opts.Retention}
		methods["/"+name] = m
		return m, nil
	}
	for _, path := range opts.Methods {
		if _, err := add("Methods", path); err != nil {
			return nil, err
		}
	}
	for path, own := range opts.RetentionOf {
		own = door.Retention(own, opts.Retention)
		m := methods["/"+strings.TrimPrefix(path, "/")]
		if m == nil {
			return nil, invalid("RetentionOf", "has %q, which Methods does not name or which has no side effects by its definition", path)
		}
		if bad := door.CheckRetention(d, own); bad != nil {
			bad.Field = "RetentionOf"
			return nil, bad
		}
		m.retention = own
	}
	for path, name := range opts.ToolOf {
		m, err := add("ToolOf", path)
		if err != nil {
			return nil, err
		}
		if m == nil {
			return nil, invalid("ToolOf", "has %q, which has no side effects by its definition; serve it without the interceptor", path)
		}
		if opts.Tools == nil {
			return nil, invalid("Tools", "is required by ToolOf")
		}
		info, known := opts.Tools.Lookup(name)
		if !known {
			return nil, invalid("ToolOf", "has %q for %q, and Tools has no such tool", name, path)
		}
		m.tool = &info
		if m.requestID != nil && slices.Contains(info.Key, m.requestID.JSONName()) {
			m.requestID = nil // it is the tool's own key
		}
	}
	if len(methods) == 0 {
		return nil, invalid("Methods", "names no method with side effects")
	}
	return methods, nil
}

// find returns the unary method of a path, or the problem of the path.
func find(path string) (_ protoreflect.MethodDescriptor, problem string) {
	service, name, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if !ok {
		return nil, "is no path of a method, such as /shop.v1.Orders/Create"
	}
	descriptor, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service).Append(protoreflect.Name(name)))
	if err != nil {
		return nil, "no file of this program defines; import the generated code of its service"
	}
	m, ok := descriptor.(protoreflect.MethodDescriptor)
	switch {
	case !ok:
		return nil, "is no method"
	case m.IsStreamingClient() || m.IsStreamingServer():
		return nil, "streams: an answer that is not one message cannot be recorded"
	}
	return m, ""
}

func changesNothing(m protoreflect.MethodDescriptor) bool {
	opts, ok := m.Options().(*descriptorpb.MethodOptions)
	return ok && opts.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

// requestID returns the field request_id of a request (AIP-155), if it is a single string.
func requestID(in protoreflect.MessageDescriptor) protoreflect.FieldDescriptor {
	f := in.Fields().ByName("request_id")
	if f == nil || f.Kind() != protoreflect.StringKind || f.Cardinality() == protoreflect.Repeated {
		return nil
	}
	return f
}

// newResponse returns an empty response of the generated type, if the program has it.
func (m *method) newResponse() proto.Message {
	if generated, err := protoregistry.GlobalTypes.FindMessageByName(m.out.FullName()); err == nil {
		return generated.New().Interface()
	}
	return dynamicpb.NewMessage(m.out)
}
