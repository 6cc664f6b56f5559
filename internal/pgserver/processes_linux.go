package pgserver

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// processes lists the processes of this machine from /proc.
func processes() ([]processInfo, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var all []processInfo
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue // it has ended meanwhile
		}
		if info, ok := parseStat(pid, string(stat)); ok {
			all = append(all, info)
		}
	}
	return all, nil
}

// parseStat reads the text of /proc/PID/stat. The program's name, in brackets,
// may itself hold spaces and brackets; the state follows the last of them.
func parseStat(pid int, stat string) (processInfo, bool) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const state, parent, started = 0, 1, 19 // fields 3, 4 and 22 of proc(5)
	if len(fields) <= started {
		return processInfo{}, false
	}
	ppid, err := strconv.Atoi(fields[parent])
	if err != nil {
		return processInfo{}, false
	}
	return processInfo{pid: pid, parent: ppid, state: fields[state][0], started: fields[started]}, true
}
