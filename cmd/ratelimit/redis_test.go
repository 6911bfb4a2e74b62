package main_test

import (
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/redistest"
)

// Proxies of several machines share a quota in Redis, whose password is in the environment.
func TestRedis(t *testing.T) {
	server := redistest.Start(t, redistest.Config("requirepass redis-secret"))
	u := provider(t, nil)
	env := []string{"REDIS_URL=redis://:redis-secret@" + server.Addr()}
	flags := []string{"--redis", server.Addr(), "--redis-prefix", "team", "--upstream", u.URL, "--rpm", "2", "--max-wait", "1ms"}
	first, second := startWith(t, env, flags...), startWith(t, env, flags...)
	for i, test := range []struct {
		p      *proxied
		status int
	}{{first, 200}, {second, 200}, {first, 429}, {second, 429}} {
		resp := post(t, test.p.url+"/v1/chat/completions", chat("m"))
		if read(t, resp); resp.StatusCode != test.status {
			t.Errorf("call %d: %d", i, resp.StatusCode)
		}
	}
	cmd := command(t, append([]string{"proxy", "--listen", "127.0.0.1:0", "--admin", ""}, flags...)...)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "NOAUTH") {
		t.Errorf("without the password: %v, %s", err, out)
	}
	if said := first.log.String() + second.log.String(); strings.Contains(said, "redis-secret") {
		t.Errorf("the password is told:\n%s", said)
	}
}
