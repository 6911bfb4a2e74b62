// Package persist tests what limiters keep in YAML files and in SQLite databases, with Persist and
// Load, with Config.AutoPersist and with MigrateYAMLToSQLite: limiters of the public API, files
// that other programs made, damaged or hold, and processes that are killed. Only tests are in it.
package persist

import (
	"flag"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

// backends are those of this build.
var backends = limitertest.Backends()

func TestMain(m *testing.M) {
	// Tests that run in parallel wait for processes, locks and files more than they compute.
	flag.Parse()
	asked := false // for another number, or to fuzz, where it is that of the processes
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" || f.Name == "test.fuzz" })
	if !asked {
		flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0)))
	}
	statefile.RealTemp()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // of limiters without OnError
	os.Exit(m.Run())
}
