package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// An Account runs servers in our place where we are root: PostgreSQL and PgBouncer refuse to
// run as root. A nil *Account means our own.
type Account struct {
	Name     string
	uid, gid uint32
}

// Unprivileged returns nil for an ordinary user. For root it returns the account "postgres", which
// the packages of most distributions create, or else the account "nobody".
func Unprivileged() (*Account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil && uid != 0 {
			return &Account{Name: name, uid: uint32(uid), gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("root has to run the server as another account, and there is no postgres or nobody: `useradd --system postgres` makes one")
}

// Own gives files to the account.
func (a *Account) Own(paths ...string) error {
	if a == nil {
		return nil
	}
	for _, path := range paths {
		if err := os.Chown(path, int(a.uid), int(a.gid)); err != nil {
			return fmt.Errorf("giving %s to user %q: %w", path, a.Name, err)
		}
	}
	return nil
}

// attributes make a program run as the account and in a process group; 0 makes a new group. Ctrl-C
// in a terminal then reaches this process and not the server.
func (a *Account) attributes(group int) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pgid: group}
	if a != nil {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return attr
}
