package redisserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
)

// version asks the server at the address what it is. It speaks Redis's inline
// protocol itself, because a client library would log every refused connection of
// a server that is still starting.
func version(ctx context.Context, addr string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return "", err
		}
	}
	if _, err := fmt.Fprint(conn, "INFO server\r\nQUIT\r\n"); err != nil {
		return "", err
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if version, ok := strings.CutPrefix(lines.Text(), "redis_version:"); ok {
			return version, nil
		}
	}
	return "", errors.Join(errors.New("its INFO names no version"), lines.Err())
}
