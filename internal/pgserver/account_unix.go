//go:build unix

package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// An account runs the server programs in our place. PostgreSQL refuses to run as
// root. A nil *account means our own.
type account struct {
	name     string
	uid, gid uint32
}

// unprivileged returns nil for an ordinary user. For root it returns the account
// "postgres", which the packages of most distributions make, or else "nobody".
func unprivileged() (*account, error) {
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
			return &account{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and there is no account postgres or nobody to run it as: `useradd --system postgres` makes one")
}

// own gives the folder to the account.
func (a *account) own(dir string) error {
	if a == nil {
		return nil
	}
	if err := os.Chown(dir, int(a.uid), int(a.gid)); err != nil {
		return fmt.Errorf("giving the folder to user %q: %w", a.name, err)
	}
	return nil
}

// attributes make a program run as the account, and in a process group of its
// own, so that Ctrl-C in a terminal reaches us and not the server.
func (a *account) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a != nil {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	return attr
}
