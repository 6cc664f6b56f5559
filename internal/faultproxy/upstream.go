package faultproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// serverConn is what the proxy needs of a TCP or unix-socket connection to the server.
type serverConn interface {
	net.Conn
	CloseWrite() error
}

// upstream is the server behind the proxy.
type upstream struct {
	network, address string
	url              *url.URL
}

// parseUpstream reads a postgres:// URL whose host is in the authority or, as unix sockets need it, in the host
// parameter.
func parseUpstream(text string) (*upstream, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parsing the upstream URL: %w", err)
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errors.New("parsing the upstream URL: it must begin with postgres://")
	}
	query := u.Query()
	host, port := u.Hostname(), u.Port()
	if v := query.Get("host"); v != "" {
		host = v
	}
	if v := query.Get("port"); v != "" {
		port = v
	}
	if host == "" {
		host = "localhost"
	}
	if port == "" {
		port = "5432"
	}
	if strings.Contains(host, ",") {
		return nil, errors.New("parsing the upstream URL: only one host is supported")
	}
	if strings.HasPrefix(host, "/") {
		return &upstream{network: "unix", address: host + "/.s.PGSQL." + port, url: u}, nil
	}
	return &upstream{network: "tcp", address: net.JoinHostPort(host, port), url: u}, nil
}

// via returns the URL that leads to the same database through address.
func (u *upstream) via(address string) string {
	rewritten := *u.url
	rewritten.Host = address
	query := rewritten.Query()
	query.Del("host")
	query.Del("hostaddr")
	query.Del("port")
	query.Set("sslmode", "disable")
	rewritten.RawQuery = query.Encode()
	return rewritten.String()
}

func (u *upstream) dial(ctx context.Context) (serverConn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, u.network, u.address)
	if err != nil {
		return nil, err
	}
	return conn.(serverConn), nil
}
