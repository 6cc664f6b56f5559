package mcpdedup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/tooldedup/dedup/mcpdedup"
)

// cutFront is a proxy that cuts the connection instead of sending the first answer to each key.
type cutFront struct {
	inner http.Handler

	mu  sync.Mutex
	cut map[string]bool // by key
}

// ServeHTTP implements http.Handler.
func (f *cutFront) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client left
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if !f.cuts(body) {
		f.inner.ServeHTTP(w, r)
		return
	}
	f.inner.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithoutCancel(r.Context())))
	panic(http.ErrAbortHandler)
}

func (f *cutFront) cuts(body []byte) bool {
	var call struct {
		Method string
		Params struct{ Arguments map[string]any }
	}
	if json.Unmarshal(body, &call) != nil || call.Method != "tools/call" {
		return false
	}
	key, _ := call.Params.Arguments[mcpdedup.KeyArgument].(string)
	f.mu.Lock()
	defer f.mu.Unlock()
	if key == "" || f.cut[key] {
		return false
	}
	f.cut[key] = true
	return true
}
