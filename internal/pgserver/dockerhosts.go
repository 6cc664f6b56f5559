package pgserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/testcontainers/testcontainers-go"
)

// dockerHosts returns the addresses of Docker daemons in the order in which
// testcontainers-go looks for them. Sockets that do not exist are left out.
func dockerHosts() []string {
	config := testcontainers.ReadConfig().Config
	hosts := []string{config.TestcontainersHost, os.Getenv("DOCKER_HOST")}
	hosts = append(hosts, existingSocket("/var/run/docker.sock"), config.Host)

	home, _ := os.UserHomeDir()
	for _, path := range []string{
		filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "docker.sock"),
		filepath.Join(home, ".docker", "run", "docker.sock"),
		filepath.Join(home, ".docker", "desktop", "docker.sock"),
		filepath.Join("/run/user", strconv.Itoa(os.Getuid()), "docker.sock"),
	} {
		hosts = append(hosts, existingSocket(path))
	}

	var set []string
	for _, host := range hosts {
		if host != "" {
			set = append(set, host)
		}
	}
	return set
}

// existingSocket returns the address of a Unix socket, and "" where there is none.
func existingSocket(path string) string {
	info, err := os.Stat(path)
	if err != nil || info.Mode()&os.ModeSocket == 0 || !filepath.IsAbs(path) {
		return ""
	}
	return "unix://" + path
}

// pingDocker returns nil once a daemon has answered. Testcontainers-go asks the
// same daemons in the same order, but without a limit on the time: a daemon that
// refuses is passed over, one that accepts and then is silent ends the search.
func pingDocker(ctx context.Context, hosts []string, wait time.Duration) error {
	if len(hosts) == 0 {
		return fmt.Errorf("DOCKER_HOST is not set and no daemon's socket exists: %w", errAbsent)
	}
	var errs []error
	for _, host := range hosts {
		err := ping(ctx, host, wait)
		if err == nil {
			return nil
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return errors.Join(append(errs, fmt.Errorf("the daemon at %s did not answer within %s: %w", host, wait, err))...)
		}
		errs = append(errs, fmt.Errorf("no daemon answers at %s: %w", host, err))
	}
	return errors.Join(errs...)
}

// ping asks one daemon for a sign of life: any answer at all.
func ping(ctx context.Context, host string, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	u, err := url.Parse(host)
	if err != nil {
		return err
	}
	network, address := "tcp", u.Host
	switch u.Scheme {
	case "unix":
		network, address = "unix", u.Path
	case "npipe":
		return nil // testcontainers-go finds out
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		defer func() { _ = conn.Close() }()
		defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
		_, err = io.WriteString(conn, "GET /_ping HTTP/1.0\r\n\r\n")
	}
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// triedHosts puts the addresses into words.
func triedHosts(hosts []string) string {
	if len(hosts) == 0 {
		return "DOCKER_HOST and the usual sockets"
	}
	return "the daemon at " + strings.Join(hosts, ", then ")
}
