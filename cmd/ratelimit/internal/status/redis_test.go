package status_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/redistest"
	"dappco.re/go/core/go-ratelimit/redisstore"
)

// overRedis opens a limiter whose quota is in a server.
func overRedis(t *testing.T, server *redistest.Server, cfg ratelimit.Config) *ratelimit.RateLimiter {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	shared, err := redisstore.New(t.Context(), client, redisstore.Options{Prefix: "ratelimit"})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Store, cfg.Shared, cfg.Backend = shared, false, ""
	return open(t, cfg)
}

// A user that may only read is told what is in a server, while limiters live and when none does.
func TestStatusOfRedis(t *testing.T) {
	server := redistest.Start(t)
	server.Do("ACL", "SETUSER", "guest", "reset", "on", ">secret", "~*", "-@all", "+@read", "+@connection", "+time")
	t.Setenv("REDIS_URL", "redis://guest:secret@"+server.Addr())
	args := []string{"--redis", server.Addr()}
	home := t.TempDir()
	r := runStatus(t, home, args...)
	if r.code != 1 || !strings.Contains(r.stderr, "no limiter has used it yet") {
		t.Errorf("an empty server: exit %d, %s", r.code, r.stderr)
	}
	one, two := overRedis(t, server, config()), overRedis(t, server, config())
	defer reserve(t, one, "gpt-4o", 1000, 200).Cancel()
	defer reserve(t, two, "gpt-4o", 500, 100).Cancel()
	for range 300 { // more than a page
		two.RecordUsage("gpt-4o", 1, 0)
	}
	if err := two.Persist(); err != nil {
		t.Fatal(err)
	}
	is := report(t, home, append(args, "gpt-4o")...)
	e := &is.Models[0]
	if e.InFlight != 2 || e.Next.Stats.RPM != 302 || e.Next.Stats.TPM != 2100 || e.Origin != "shared" || len(is.Pools) != 1 {
		t.Errorf("%+v", is)
	}
	if p := is.Processes; len(p) != 2 || p[0].Tokens["gpt-4o"] != 1200 || p[1].Tokens["gpt-4o"] != 600 {
		t.Errorf("processes %+v", p)
	}
	one.Close()
	two.Close()
	if is := report(t, home, append(args, "gpt-4o")...); len(is.Processes) != 0 || is.Models[0].Next.Stats.RPM != 302 {
		t.Errorf("nobody lives: %+v", is)
	}
	for _, entry := range server.Do("ACL", "LOG").([]any) {
		if fields := entry.(map[any]any); fields["object"] != "info" {
			t.Errorf("refused: %v %v", fields["reason"], fields["object"])
		}
	}
	server.Do("DEL", "{ratelimit}:ratelimit:3:meta")
	r = runStatus(t, home, args...)
	if r.code != 1 || !strings.Contains(r.stderr, "the log was lost") {
		t.Errorf("a lost log: exit %d, %s", r.code, r.stderr)
	}
	server.Do("FLUSHALL")
	server.Do("HSET", "{ratelimit}:ratelimit:2:meta", "head", "1 2 3")
	r = runStatus(t, home, args...)
	if r.code != 1 || !strings.Contains(r.stderr, "earlier version") {
		t.Errorf("the layout before: exit %d, %s", r.code, r.stderr)
	}
}
