package grpcdedup

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// stream is a [grpc.ServerTransportStream] that keeps the headers and trailers of one run of a
// handler until its answer is certain. A run that is rolled back may not leave its own behind. Nor
// may headers go with a status of the interceptor: a client of grpc-go does not retry after a
// header.
type stream struct {
	method string

	mu              sync.Mutex // a handler may set them on any goroutine
	header, trailer metadata.MD
	sent            bool // the handler has called SendHeader
}

func (s *stream) Method() string { return s.method }

func (s *stream) SetHeader(md metadata.MD) error { return s.keep(md, false) }

// SendHeader keeps the header too, because it cannot be taken back.
func (s *stream) SendHeader(md metadata.MD) error { return s.keep(md, true) }

// keep keeps a header. As in grpc-go, none may follow SendHeader.
func (s *stream) keep(md metadata.MD, send bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent {
		return status.Error(codes.Internal, "grpcdedup: SetHeader or SendHeader after SendHeader")
	}
	s.header, s.sent = metadata.Join(s.header, md), send
	return nil
}

func (s *stream) SetTrailer(md metadata.MD) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trailer = metadata.Join(s.trailer, md)
	return nil
}

// sendTo sends the metadata with the answer of the request that ctx belongs to. It fails only
// outside a server.
func (s *stream) sendTo(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = grpc.SetHeader(ctx, s.header)
	_ = grpc.SetTrailer(ctx, s.trailer)
}
