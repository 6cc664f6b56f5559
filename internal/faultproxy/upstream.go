package faultproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"

	"github.com/jackc/pgx/v5/pgconn"
)

// serverConn is the part of a TCP or unix-socket connection that the proxy needs.
type serverConn interface {
	net.Conn
	CloseWrite() error
}

// upstream is the server behind the proxy.
type upstream struct {
	network, address string
	url              *url.URL
}

// parseUpstream reads a postgres:// URL of one host, as pgx does. Unix sockets need the parameter
// host.
func parseUpstream(text string) (*upstream, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parsing the upstream URL: %w", err)
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errors.New("parsing the upstream URL: it must begin with postgres://")
	}
	config, err := pgconn.ParseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("parsing the upstream URL: %w", err)
	}
	for _, other := range config.Fallbacks { // or the same host without TLS
		if other.Host != config.Host || other.Port != config.Port {
			return nil, errors.New("parsing the upstream URL: only one host is supported")
		}
	}
	network, address := pgconn.NetworkAddress(config.Host, config.Port)
	return &upstream{network: network, address: address, url: u}, nil
}

// via returns the URL of the same database at address.
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
