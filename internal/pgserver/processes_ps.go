//go:build unix && !linux

package pgserver

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// processes lists the processes of this machine as ps tells them.
func processes() ([]processInfo, error) {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=,stat=,lstart=").Output()
	if err != nil {
		return nil, fmt.Errorf("listing processes: ps: %w", err)
	}
	var all []processInfo
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		pid, err1 := strconv.Atoi(fields[0])
		parent, err2 := strconv.Atoi(fields[1])
		if err1 == nil && err2 == nil {
			all = append(all, processInfo{pid: pid, parent: parent, state: fields[2][0], started: strings.Join(fields[3:], " ")})
		}
	}
	return all, nil
}
