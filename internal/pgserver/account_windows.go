package pgserver

import "syscall"

// An account runs the server programs in our place. On Windows there is none.
type account struct{ name string }

// unprivileged returns nil: the server runs as our own user.
func unprivileged() (*account, error) { return nil, nil }

// own does nothing: the folder is ours already.
func (a *account) own(string) error { return nil }

// attributes keep Ctrl-C in a terminal from reaching the server.
func (a *account) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
