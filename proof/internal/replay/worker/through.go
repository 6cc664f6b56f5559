package worker

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Way is how deliveries reach the tools of a worker.
type Way string

const (
	// Registry: lines on the worker's input, and Registry.Invoke in its process.
	Registry Way = "registry"
	// HTTP: POST requests to a server in the worker, whose routes httpdedup guards.
	HTTP Way = "http"
	// MCP: calls to MCP servers in the worker, over streamable HTTP. mcpdedup
	// exposes the registry through them.
	MCP Way = "mcp"
)

// ways are all ways, in the order in which they are listed.
var ways = [...]Way{Registry, HTTP, MCP}

// ParseWay reads the name of a way.
func ParseWay(name string) (Way, error) {
	if way := Way(name); slices.Contains(ways[:], way) {
		return way, nil
	}
	return "", fmt.Errorf("unknown way %q; known are %s", name, WayNames())
}

// WayNames lists all ways for a help text.
func WayNames() string {
	names := make([]string, len(ways))
	for i, way := range ways {
		names[i] = string(way)
	}
	return strings.Join(names, ", ")
}

// Networked reports whether there is a network between driver and worker.
func (w Way) Networked() bool { return w != Registry }

// Client delivers to one worker process over a network. It may be used by several
// goroutines. After an error there is no answer, and the delivery must be sent
// again.
type Client interface {
	Deliver(ctx context.Context, d Delivery) (Answer, error)
	Close()
}

// Dial returns a client of the worker that has announced an address. It sends its
// requests through the transport.
func (w Way) Dial(address string, transport http.RoundTripper) (Client, error) {
	switch w {
	case HTTP:
		return newHTTPClient(address, transport), nil
	case MCP:
		return newMCPClient(address, transport), nil
	default:
		return nil, fmt.Errorf("by way of %q there is nothing to dial", w)
	}
}

// handler is what a worker serves.
func (w Way) handler(e *executor) (http.Handler, error) {
	switch w {
	case HTTP:
		return httpHandler(e)
	case MCP:
		return mcpHandler(e)
	default:
		return nil, fmt.Errorf("by way of %q there is nothing to serve", w)
	}
}
