//go:build !nosqlite

package sqlitelog

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
)

// lifePath is the file that a process keeps locked as long as it lives.
func (l *Log) lifePath(process int64) string { return lifePathOf(l.path, process) }

// lifePathOf is lifePath of the database at path.
func lifePathOf(path string, process int64) string {
	return fmt.Sprintf("%s.%016x.life", path, process)
}

func (l *Log) livenessOf(process int64) fsx.Liveness { return fsx.LivenessOf(l.lifePath(process)) }

// lives returns the processes that have a life file, and the temporary ones that became
// none.
func (l *Log) lives() (processes []int64, temps []string) {
	folder, base := filepath.Split(l.path)
	entries, _ := os.ReadDir(folder) // without them no process is known, and nothing removed
	for _, entry := range entries {
		rest, isTemp := strings.CutPrefix(entry.Name(), "."+base+".")
		if !isTemp {
			rest, _ = strings.CutPrefix(entry.Name(), base+".")
		}
		if len(rest) < 16 || !entry.Type().IsRegular() {
			continue
		}
		process, err := strconv.ParseInt(rest[:16], 16, 64)
		switch {
		case err != nil:
		case isTemp && strings.HasPrefix(rest[16:], ".life.tmp-"):
			temps = append(temps, filepath.Join(folder, entry.Name()))
		case !isTemp && rest[16:] == ".life":
			processes = append(processes, process)
		}
	}
	return processes, temps
}

// othersLive reports whether there are other processes that use the path.
func (l *Log) othersLive() bool {
	processes, _ := l.lives()
	return slices.ContainsFunc(processes, func(process int64) bool { return l.livenessOf(process) == fsx.Alive })
}

// unknownDead returns the dead processes that the database does not know: those that died
// while they opened it, or before it was replaced. What a known one held has yet to be ended,
// and nothing but its life file tells that it is dead. So it must be called with the lock
// held, and known be what the database says now.
func (l *Log) unknownDead(known []int64) (dead []int64) {
	processes, temps := l.lives()
	for _, path := range temps {
		fsx.SweepTemp(path)
	}
	for _, process := range processes {
		if !slices.Contains(known, process) && l.livenessOf(process) == fsx.Dead {
			dead = append(dead, process)
		}
	}
	return dead
}

// removeDead removes the life files of those processes that are dead.
func (l *Log) removeDead(processes []int64) {
	for _, process := range processes {
		fsx.RemoveDead(l.lifePath(process))
	}
}

// holdLife makes others see that this process lives.
func (l *Log) holdLife() error {
	if l.life != nil && l.livenessOf(l.options.Process) != fsx.Unknown {
		return nil
	}
	life, err := fsx.HoldLife(l.lifePath(l.options.Process))
	if err != nil {
		return err
	}
	if l.life != nil {
		l.life.Release()
	}
	l.life = life
	return nil
}

// Owner tells whether a process lives: by its life file where that can tell, else by its
// lease. It may be called within a step, which it then answers by what that has read.
func (l *Log) Owner(process int64) sharedlog.Liveness {
	if process == l.options.Process {
		return sharedlog.Alive
	}
	life := l.livenessOf(process)
	if life == fsx.Dead {
		return sharedlog.Dead
	}
	wall, mono := l.clocks()
	lease, known := l.leaseOf(process)
	switch {
	case !known || lease.holds(wall, mono):
		return sharedlog.Alive
	case life == fsx.Unknown:
		return sharedlog.Dead
	default:
		return sharedlog.Silent // stopped, say; its calls may be under way
	}
}

// leaseOf returns what a process said last of itself, and whether that is known. The lease of a
// process that has none is known, and does not hold. But within a step that reads everything
// it is not known: only events of the process are left, which may have ended all it held.
func (l *Log) leaseOf(process int64) (is lease, known bool) {
	l.readMu.Lock()
	defer l.readMu.Unlock()
	if l.joining != nil {
		is, known = l.joining[process]
		return is, known
	}
	if l.file == nil {
		return is, false
	}
	is, err := l.file.reader.readLease(process)
	return is, err == nil
}

// clocks returns what the wall clock and that of the machine say now.
func (l *Log) clocks() (wall, mono int64) {
	instant, wall := l.options.Now()
	machine := l.Clock()
	return wall, machine.At(instant)
}
