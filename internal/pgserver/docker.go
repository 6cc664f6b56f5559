package pgserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

// Image is the container image of PostgreSQL that [Start] runs. The project's
// docker-compose.yml names the same one.
const Image = "postgres:17-alpine"

const (
	// pingWait is how long a daemon may take to answer.
	pingWait = 2 * time.Second

	// containerWait bounds pulling the image and starting the server in it.
	containerWait = 3 * time.Minute

	// containerStop is how long Docker gives the server to shut down.
	containerStop = 10 * time.Second

	containerPort = "5432/tcp"

	initdbArgs = "--no-sync --encoding=UTF8 --locale=C"
)

// container starts a container of [Image] if a daemon answers in time. Testcontainers' helper
// removes the container if this process dies.
func container(hosts []string) func(context.Context, *Options) (*Server, error) {
	return func(ctx context.Context, opts *Options) (*Server, error) {
		if err := pingDocker(ctx, hosts, pingWait); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, containerWait)
		defer cancel()
		password := rand.Text()
		c, err := runContainer(ctx, password, opts)
		terminate := func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*containerStop)
			defer cancel()
			return testcontainers.TerminateContainer(c, testcontainers.StopContext(ctx), testcontainers.StopTimeout(containerStop))
		}
		if err == nil {
			var server *Server
			if server, err = containerServer(ctx, c, password); err == nil {
				server.stop = terminate
				return server, nil
			}
		}
		return nil, errors.Join(fmt.Errorf("a container of %s: %w", Image, err), terminate(ctx))
	}
}

// runContainer creates and starts the container. The container may be there
// although there is an error.
func runContainer(ctx context.Context, password string, opts *Options) (c *testcontainers.DockerContainer, err error) {
	// Testcontainers panics where it cannot find out about the daemon.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("starting: %v", r)
		}
	}()
	return testcontainers.Run(ctx, Image,
		testcontainers.WithLogger(log.NewNoopLogger()),
		testcontainers.WithExposedPorts(containerPort),
		testcontainers.WithCmd(append([]string{"postgres"}, opts.settings()...)...),
		testcontainers.WithEnv(map[string]string{"POSTGRES_PASSWORD": password, "POSTGRES_INITDB_ARGS": initdbArgs}),
	)
}

// containerServer returns the container's server once it accepts connections. While
// the image sets its data folder up nothing listens on TCP.
func containerServer(ctx context.Context, c testcontainers.Container, password string) (*Server, error) {
	host, err := c.Host(ctx)
	if err != nil {
		return nil, fmt.Errorf("finding its host: %w", err)
	}
	port, err := c.MappedPort(ctx, containerPort)
	if err != nil {
		return nil, fmt.Errorf("finding its port: %w", err)
	}
	dsn := (&url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(clusterUser, password),
		Host:     net.JoinHostPort(host, port.Port()),
		Path:     "/postgres",
		RawQuery: "sslmode=disable",
	}).String()
	version, err := await(ctx, dsn, func(error) bool { return true })
	if err != nil {
		return nil, fmt.Errorf("waiting for its server: %w", err)
	}
	return &Server{URL: dsn, Source: fmt.Sprintf("PostgreSQL %s in a Docker container of %s", version, Image)}, nil
}

// dockerHosts returns the addresses of Docker daemons in the order in which
// testcontainers-go looks for them.
func dockerHosts() []string {
	config := testcontainers.ReadConfig().Config
	home, _ := os.UserHomeDir()
	hosts := []string{
		config.TestcontainersHost, os.Getenv("DOCKER_HOST"), "unix:///var/run/docker.sock", config.Host,
		"unix://" + filepath.Join(home, ".docker/run/docker.sock"),
		"unix://" + filepath.Join(home, ".docker/desktop/docker.sock"),
		"unix://" + filepath.Join("/run/user", strconv.Itoa(os.Getuid()), "docker.sock"),
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		hosts = slices.Insert(hosts, 4, "unix://"+filepath.Join(dir, "docker.sock"))
	}
	return slices.DeleteFunc(hosts, func(host string) bool { return host == "" })
}

// pingDocker returns nil once a daemon has answered. Testcontainers-go asks the
// same daemons in the same order, but without a limit on the time: a daemon that
// refuses is passed over, one that accepts and then is silent ends the search.
func pingDocker(ctx context.Context, hosts []string, wait time.Duration) error {
	var errs []error
	for _, host := range hosts {
		switch err := ping(ctx, host, wait); {
		case err == nil:
			return nil
		case errors.Is(err, fs.ErrNotExist) && host != os.Getenv("DOCKER_HOST"): // there is no such socket, and DOCKER_HOST does not name it
		case errors.Is(err, context.DeadlineExceeded):
			return errors.Join(append(errs, fmt.Errorf("the daemon at %s did not answer within %s: %w", host, wait, err))...)
		default:
			errs = append(errs, fmt.Errorf("no daemon answers at %s: %w", host, err))
		}
	}
	if errs == nil {
		return fmt.Errorf("no daemon's socket is there, of %s: %w", strings.Join(hosts, ", "), errAbsent)
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
	if u.Scheme == "unix" {
		network, address = "unix", u.Path
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
