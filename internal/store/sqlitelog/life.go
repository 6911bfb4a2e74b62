//go:build !nosqlite

package sqlitelog

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
)

// lifePath is the file that a process keeps locked as long as it lives. Versions of before have the
// same, so that each sees the other.
func (l *Log) lifePath(process int64) string { return fmt.Sprintf("%s.%016x.life", l.path, process) }

// Dead implements store.Witness.
func (l *Log) Dead(process int64) bool { return fsx.LivenessOf(l.lifePath(process)) == fsx.Dead }

// lives returns the processes that have a life file, and the temporary ones that became none.
func (l *Log) lives() (processes []int64, temps []string) {
	folder, base := filepath.Split(l.path)
	entries, _ := os.ReadDir(folder) // without them no process is known, and nothing removed
	for _, entry := range entries {
		_, rest, _ := strings.Cut(entry.Name(), base+".")
		process, err := strconv.ParseInt(rest[:min(len(rest), 16)], 16, 64)
		life := l.lifePath(process)
		switch {
		case err != nil || !entry.Type().IsRegular():
		case entry.Name() == filepath.Base(life):
			processes = append(processes, process)
		case strings.HasPrefix(entry.Name(), fsx.TempPrefix(life)):
			temps = append(temps, filepath.Join(folder, entry.Name()))
		}
	}
	return processes, temps
}

// othersLive reports whether there are other processes that use the path.
func (l *Log) othersLive() bool {
	processes, _ := l.lives()
	return slices.ContainsFunc(processes, func(process int64) bool {
		return process != l.options.Process && fsx.LivenessOf(l.lifePath(process)) == fsx.Alive
	})
}

// holdLife makes others see that this process lives.
func (l *Log) holdLife() error {
	if l.life != nil && fsx.LivenessOf(l.lifePath(l.options.Process)) != fsx.Unknown {
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

// mournFor is how long the life file of a dead process stays at least, so that all who watch the
// process see that it is dead.
const mournFor = time.Minute

// sweepLives removes the life files of processes that were already dead when it was called before,
// at least mournFor ago.
func (l *Log) sweepLives() {
	l.sweeping.Lock()
	defer l.sweeping.Unlock()
	if time.Since(l.sweptAt) < mournFor {
		return
	}
	for _, process := range l.dead {
		fsx.RemoveDead(l.lifePath(process))
	}
	processes, temps := l.lives()
	for _, temp := range temps {
		fsx.SweepTemp(temp)
	}
	l.dead, l.sweptAt = slices.DeleteFunc(processes, func(process int64) bool { return !l.Dead(process) }), time.Now()
}
