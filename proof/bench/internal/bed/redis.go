package bed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/tooldedup/dedup/internal/process"
)

// ErrNoRedis is returned by [Bed.Site] if a way needs Redis and the machine has none.
var ErrNoRedis = errors.New("redis-server was found neither in PATH nor unpacked: `make redis` fetches Debian's package")

// A Redis is a running server.
type Redis struct {
	Addr    string // host and port
	Version string

	client *redis.Client
	asked  int64 // how often its commands were counted
	cmd    *exec.Cmd
	leash  io.Closer // Redis ends with this pipe
}

// startRedis starts a Redis from PATH or from the folder of scripts/unpack, and returns when it
// accepts connections. It keeps everything in memory and nothing on disk, which is fastest.
func startRedis(ctx context.Context, folder string) (_ *Redis, err error) {
	program, env, err := process.Find("redis-server", folder)
	if err != nil {
		return nil, ErrNoRedis
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Redis{Addr: free.Addr().String()}
	if err := free.Close(); err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(s.Addr)
	s.cmd = process.Tied(program, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", os.TempDir())
	s.cmd.Env = append(os.Environ(), env...)
	if s.leash, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting Redis: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = s.leash.Close() })()
	s.client = redis.NewClient(&redis.Options{Addr: s.Addr})
	return s, s.awaitReady(output)
}

// awaitReady reads the server's log until it reports ready, and discards the rest.
func (s *Redis) awaitReady(output io.Reader) error {
	var log strings.Builder
	for lines := bufio.NewScanner(io.TeeReader(output, &log)); lines.Scan(); {
		if _, version, found := strings.Cut(lines.Text(), "Redis version="); found {
			s.Version, _, _ = strings.Cut(version, ",")
		}
		if strings.Contains(lines.Text(), "Ready to accept connections") {
			go func() { _, _ = io.Copy(io.Discard, output) }()
			return nil
		}
	}
	return fmt.Errorf("starting Redis: it has ended: %w\n%s", s.cmd.Wait(), log.String())
}

// Commands is the number of commands it received, without the ones that ask for it. It is 0 without
// a Redis. It must not be called concurrently.
func (s *Redis) Commands(ctx context.Context) (int64, error) {
	if s == nil {
		return 0, nil
	}
	stats, err := s.client.InfoMap(ctx, "stats").Result()
	if err != nil {
		return 0, fmt.Errorf("asking Redis for its commands: %w", err)
	}
	commands, err := strconv.ParseInt(stats["Stats"]["total_commands_processed"], 10, 64)
	commands -= s.asked
	s.asked++
	return commands, err
}

func (s *Redis) stop() error {
	_, _ = s.client.Close(), s.leash.Close()
	return s.cmd.Wait()
}
