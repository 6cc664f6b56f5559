package pgserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

// Image is the container image of PostgreSQL that [Start] runs. The project's
// docker-compose.yml names the same one.
const Image = "postgres:17-alpine"

const (
	// containerWait bounds pulling the image and creating the container.
	containerWait = 3 * time.Minute

	// containerStop is how long Docker gives the server to shut down.
	containerStop = 10 * time.Second

	containerPort = "5432/tcp"

	initdbArgs = "--no-sync --encoding=UTF8 --locale=C"
)

// fromDocker starts a container of [Image], where a daemon answers in time.
// Testcontainers' own helper removes the container if this process dies.
func fromDocker(ctx context.Context, opts *Options) (*Server, string, error) {
	hosts := opts.look.dockerHosts()
	tried := triedHosts(hosts)
	if err := pingDocker(ctx, hosts, opts.look.dockerWait); err != nil {
		return nil, tried, err
	}
	ctx, cancel := context.WithTimeout(ctx, containerWait)
	defer cancel()

	password := rand.Text()
	container, err := runContainer(ctx, password, opts.settings())
	if err == nil {
		var server *Server
		if server, err = containerServer(ctx, container, password); err == nil {
			return server, tried, nil
		}
	}
	return nil, tried, errors.Join(err, terminate(context.WithoutCancel(ctx), container))
}

// runContainer creates and starts the container. The container may be there
// although there is an error.
func runContainer(ctx context.Context, password string, settings []string) (c *testcontainers.DockerContainer, err error) {
	// Testcontainers panics where it cannot find out about the daemon.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("starting a container of %s: %v", Image, r)
		}
	}()
	c, err = testcontainers.Run(ctx, Image,
		testcontainers.WithLogger(log.NewNoopLogger()),
		testcontainers.WithExposedPorts(containerPort),
		testcontainers.WithCmd(containerCommand(settings)...),
		testcontainers.WithEnv(map[string]string{
			"POSTGRES_PASSWORD":    password,
			"POSTGRES_INITDB_ARGS": initdbArgs,
		}),
	)
	if err != nil {
		return c, fmt.Errorf("starting a container of %s: %w", Image, err)
	}
	return c, nil
}

// containerCommand runs the server in the container with the settings.
func containerCommand(settings []string) []string {
	command := []string{"postgres"}
	for _, setting := range settings {
		command = append(command, "-c", setting)
	}
	return command
}

// containerServer returns the container's server once it accepts connections.
func containerServer(ctx context.Context, c testcontainers.Container, password string) (*Server, error) {
	host, err := c.Host(ctx)
	if err != nil {
		return nil, fmt.Errorf("finding the container's host: %w", err)
	}
	port, err := c.MappedPort(ctx, containerPort)
	if err != nil {
		return nil, fmt.Errorf("finding the container's port: %w", err)
	}
	dsn := (&url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(clusterUser, password),
		Host:     net.JoinHostPort(host, port.Port()),
		Path:     "/postgres",
		RawQuery: "sslmode=disable",
	}).String()

	version, err := awaitContainer(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("waiting for the server in the container: %w", err)
	}
	return &Server{
		URL:    dsn,
		Source: fmt.Sprintf("PostgreSQL %s in a Docker container of %s", version, Image),
		stop:   func(ctx context.Context) error { return terminate(ctx, c) },
	}, nil
}

// awaitContainer returns the server's version once it accepts connections. While
// the image sets its data folder up nothing listens on TCP.
func awaitContainer(ctx context.Context, dsn string) (string, error) {
	for {
		version, err := checkServer(ctx, dsn)
		if err == nil {
			return version, nil
		}
		if !pause(ctx, 10*pollEvery) {
			return "", errors.Join(ctx.Err(), err)
		}
	}
}

// terminate stops and removes the container, if there is one.
func terminate(ctx context.Context, c testcontainers.Container) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*containerStop)
	defer cancel()
	err := testcontainers.TerminateContainer(c,
		testcontainers.StopContext(ctx), testcontainers.StopTimeout(containerStop))
	if err != nil {
		return fmt.Errorf("removing the container: %w", err)
	}
	return nil
}
