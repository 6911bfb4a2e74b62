package redisstore_test

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/store"
	"dappco.re/go/core/go-ratelimit/internal/test/mirrorlog"
	"dappco.re/go/core/go-ratelimit/redisstore"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

// TestLives runs the lives of the main test over a server. Their module does not know this one, so
// they are another process, whose logs this one serves. RATELIMIT_LONG=1 makes a million steps.
func TestLives(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	lives := 0
	empty := func() (store.Store, error) {
		lives++ // a prefix that was used is not taken for a new one
		if err := client.FlushAll(context.Background()).Err(); err != nil {
			return nil, err
		}
		return redisstore.New(context.Background(), client, redisstore.Options{Prefix: fmt.Sprint("life ", lives), Timeout: 5 * patience})
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if conn, err := listener.Accept(); err == nil {
			defer conn.Close()
			mirrorlog.Serve(conn, empty) // until the process ends
		}
	}()
	out, err := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-timeout=0", "-v", "-run=^TestLives$/redis",
		"dappco.re/go/core/go-ratelimit/internal/test/lives", "-redis="+listener.Addr().String()).CombinedOutput()
	listener.Close()
	<-served
	if t.Logf("%s", out); err != nil {
		t.Error(err)
	}
}
