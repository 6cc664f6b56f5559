package outside

import (
	"errors"
	"os"
	"syscall"
)

var errUnix = errors.New("this campaign needs the signals of Unix")

func halt(*os.Process) error   { return errUnix }
func resume(*os.Process) error { return errUnix }

var signalFast, signalImmediate = syscall.SIGINT, syscall.SIGQUIT

func signal(int, syscall.Signal) error { return errUnix }
