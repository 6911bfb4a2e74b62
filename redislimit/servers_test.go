package redislimit_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/test/redistest"
)

// TestMain says what is left out, and lets more tests run at once than there are processors: most
// of the time they wait.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		flag.Set("test.parallel", "6")
	}
	redis.SetLogger(quiet{})
	if _, err := exec.LookPath("redis-server"); err != nil {
		fmt.Println("redislimit: redis-server is not in PATH: left out are servers that are killed, slow, flushed or " +
			"skewed, the Cluster, and expiry; the rest runs on miniredis")
	}
	os.Exit(m.Run())
}

// quiet keeps go-redis from printing each connection that fails, which here is on purpose.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// standing is a server whose clock the test sets.
type standing struct {
	client  *redis.Client
	setTime func(time.Time)
	real    bool
}

func (s standing) flush(t testing.TB) {
	t.Helper()
	if err := s.client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}

// onServers runs a test on miniredis, and on redis-server with a clock that stands still.
func onServers(t *testing.T, test func(t *testing.T, s standing)) {
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		server := miniredis.RunT(t)
		test(t, standing{newClient(t, server.Addr()), server.SetTime, false})
	})
	t.Run("redis-server", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, redistest.Ahead(0))
		test(t, standing{newClient(t, server.Addr()), server.SetTime, true})
	})
}

func newClient(t testing.TB, addr string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	return client
}

// epoch is an instant at the start of a cell of any window that tests use.
var epoch = time.UnixMicro(1_767_225_600_000_000)

// patient are options of limiters that are never without an answer, however slow the machine is.
const patience = 20 * time.Second
