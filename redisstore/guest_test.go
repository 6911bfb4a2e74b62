// A Store is a guest in somebody's Redis: its keys, its commands, its rights, and its size.

package redisstore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
	"dappco.re/go/core/go-ratelimit/redisstore"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

// everyCall calls every method that changes what limiters share, and those that read it.
func everyCall(t testing.TB, rl *ratelimit.RateLimiter) {
	t.Helper()
	r, d := rl.Reserve(model, 5, 5)
	if !d.Allowed {
		t.Fatalf("Reserve: %s", d.Reason)
	}
	r.Arrived(time.Now())
	r.Commit(3, 3)
	r, _ = rl.Reserve(model, 5, 5)
	r.Cancel()
	all, err := rl.AcquireAll(t.Context(), ratelimit.Request{Model: model, PromptTokens: 1}, ratelimit.Request{Model: "other", PromptTokens: 1})
	if err != nil {
		t.Fatal(err)
	}
	all.Cancel()
	rl.RecordUsage(model, 1, 1)
	rl.SetQuota("other", ratelimit.ModelQuota{MaxRPM: 9})
	rl.RemoveQuota("other")
	rl.CooldownFor("other", time.Minute, ratelimit.CauseOverloaded)
	rl.Reset("other")
	rl.ObserveAnswer(model, ratelimit.Usage{PromptTokens: 5, OutputTokens: 5}, ratelimit.Usage{PromptTokens: 3, OutputTokens: 3})
	rl.Stats(model)
	if err := rl.Persist(); err != nil {
		t.Fatal(err)
	}
	rl.Reset("")
}

// keysOfPrefix is how many keys a prefix has: four of its log, with one image, and eleven that keep
// programs of the layout before out.
const keysOfPrefix = 4 + 11

// All keys are of the prefix, are four and those of the layout before, and have a TTL of a week.
func TestKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rl := limiterOf(t, server.Addr())
	for _, when := range []string{"at the start", "after every call"} {
		all, err := server.Client().Keys(t.Context(), "*").Result()
		if err != nil {
			t.Fatal(err)
		}
		if len(all) != keysOfPrefix {
			t.Errorf("%s: %d keys, want %d: %q", when, len(all), keysOfPrefix, all)
		}
		for _, key := range all {
			ttl := server.Client().PTTL(t.Context(), key).Val()
			if !strings.HasPrefix(key, "{"+prefix+"}:ratelimit:") || ttl < 6*24*time.Hour || ttl > 7*24*time.Hour {
				t.Errorf("%s: key %q has a TTL of %v", when, key, ttl)
			}
		}
		everyCall(t, rl)
	}
}

// Spend counts until its month ends, so its keys stay for longer than a month without a use.
func TestKeysWithSpend(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store, err := redisstore.New(t.Context(), clientOf(t, server.Addr()), redisstore.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		Store: store, Quotas: plenty, Prices: map[string]money.Price{model: {Input: money.Dollar}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rl.Close() })
	for _, change := range []func(){func() { rl.RecordUsage(model, 5, 5) }, func() { rl.Reset("") }} {
		change()
		if err := rl.Persist(); err != nil {
			t.Fatal(err)
		}
		for _, key := range server.Client().Keys(t.Context(), "*").Val() {
			if ttl := server.Client().PTTL(t.Context(), key).Val(); ttl < 31*24*time.Hour || ttl > 32*24*time.Hour {
				t.Errorf("key %q has a TTL of %v", key, ttl)
			}
		}
	}
}

// Commands that a guest does not send.
var rude = []string{"config", "keys", "function", "script", "flushall", "flushdb", "subscribe", "psubscribe", "acl", "eval_ro", "client|kill", "monitor", "debug", "save", "scan", "select"}

func TestCommands(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, two := limiterOf(t, server.Addr()), limiterOf(t, server.Addr())
	everyCall(t, one)
	everyCall(t, two)
	var used []string
	for line := range strings.Lines(server.Client().Info(t.Context(), "commandstats").Val()) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls"); ok {
			used = append(used, name)
			if command, _, _ := strings.Cut(name, "|"); slices.Contains(rude, name) || slices.Contains(rude, command) {
				t.Errorf("a guest sent %s", name)
			}
		}
	}
	slices.Sort(used)
	t.Log("used:", strings.Join(used, " "))
}

func TestPrefixesAndLayoutsAreApart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, name := range []string{"log", "meta", "days", "quotas", "cooldowns", "answers", "procs", "more"} {
		server.Do("SET", "{"+prefix+"}:ratelimit:1:"+name, "of another version")
	}
	of := func(prefix string) *ratelimit.RateLimiter {
		return machine{addr: server.Addr(), store: redisstore.Options{Prefix: prefix}}.start(t)
	}
	one, two, like := of(prefix), of("other"), of(prefix+"}x"[1:])
	var a, b, c admitted
	a.work(one, 2, 20)
	b.work(two, 2, 30)
	c.work(like, 2, 40)
	two.Reset("")
	b.requests.Store(0)
	b.tokens.Store(0)
	awaitSum(t, &a, one, of(prefix))
	awaitSum(t, &b, two, of("other"))
	awaitSum(t, &c, like, of(prefix+"x"))
	for _, key := range server.Client().Keys(t.Context(), "*:1:*").Val() {
		if got := server.Do("GET", key); got != "of another version" {
			t.Errorf("%s is %v", key, got)
		}
	}
	if n := len(server.Client().Keys(t.Context(), "*").Val()); n != 3*keysOfPrefix+8 {
		t.Errorf("%d keys", n)
	}
}

// SCRIPT FLUSH at any time reaches no caller.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var reported errorLog
	m := machine{addr: server.Addr(), limiter: ratelimit.Config{FailClosed: true, OnError: reported.add}}
	one, two := m.start(t), m.start(t)
	stop := make(chan struct{})
	var flushes int
	var all sync.WaitGroup
	all.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				server.Do("SCRIPT", "FLUSH")
				flushes++
			}
		}
	})
	var a admitted
	a.work(one, 4, 200)
	a.work(two, 4, 200)
	close(stop)
	all.Wait()
	if n := a.denied.Load(); n > 0 || len(reported.list()) > 0 {
		t.Errorf("%d denied, reported %v", n, reported.list())
	}
	t.Logf("%d flushes", flushes)
	a.check(t, server.Addr(), one, two)
}

// rights are those that a Store needs on its keys. They are in docs/machines.md.
const rights = "resetchannels -@all +ping +evalsha +eval +xread +lrange +rpush +xtrim" +
	" +time +get +set +exists +unlink +pexpire +persist +hget +hmget +hset +llen +zadd +zcount +xadd +xrange +xrevrange"

// sentByClient are the commands that the client sends beside the scripts.
var sentByClient = []string{"ping", "evalsha", "eval", "xread", "hmget", "hget", "get", "exists", "lrange", "rpush", "pexpire", "xtrim"}

// aclUser makes a user with rights on the keys of the prefix, and returns a client of his.
func aclUser(t testing.TB, server *redistest.Server, rights string) *redis.Client {
	t.Helper()
	args := []any{"ACL", "SETUSER", "guest", "reset", "on", ">secret", "~{" + prefix + "}:ratelimit:*"}
	for _, right := range strings.Fields(rights) {
		args = append(args, right)
	}
	server.Do(args...)
	client := redis.NewClient(&redis.Options{
		Addr: server.Addr(), Username: "guest", Password: "secret", ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { client.Close() })
	return client
}

// refused returns what the server refused to users, and forgets it.
func refused(t testing.TB, server *redistest.Server) (what []string) {
	t.Helper()
	for _, entry := range server.Do("ACL", "LOG").([]any) {
		fields, _ := entry.(map[any]any)
		what = append(what, fmt.Sprint(fields["reason"], " ", fields["object"], " ", fields["context"]))
	}
	slices.Sort(what)
	server.Do("ACL", "LOG", "RESET")
	return slices.Compact(what)
}

// The rights of docs/machines.md are enough. INFO is one that a user may lack.
func TestRightsAreEnough(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	try := func(rights string) (all []error) {
		t.Helper()
		server.Do("FLUSHALL")
		server.Do("SCRIPT", "FLUSH")
		var reported errorLog
		rl := machine{client: aclUser(t, server, rights), limiter: ratelimit.Config{
			Quotas:     map[string]ratelimit.ModelQuota{model: plenty[model], "other": {MaxRPM: 100}},
			FailClosed: true, OnError: reported.add,
		}}.start(t)
		everyCall(t, rl)
		if err := rl.Err(); err != nil {
			t.Errorf("with %s: %v", rights, err)
		}
		if err := rl.Close(); err != nil { // the last report may come later
			t.Errorf("with %s: %v", rights, err)
		}
		return reported.list()
	}
	if all := try(rights + " +info"); len(all) > 0 {
		t.Errorf("with INFO, reported: %v", all)
	}
	if what := refused(t, server); len(what) > 0 {
		t.Errorf("with INFO, refused: %q", what)
	}
	all := try(rights)
	for _, warning := range all {
		if !strings.Contains(warning.Error(), "NOPERM") || !strings.Contains(warning.Error(), "info") {
			t.Errorf("without INFO, reported: %v", warning)
		}
	}
	if len(all) == 0 {
		t.Error("without INFO there is no warning")
	}
	if what := refused(t, server); !slices.Equal(what, []string{"command info toplevel"}) {
		t.Errorf("without INFO, refused: %q", what)
	}
}

// The rights of docs/machines.md are those of the commands that the scripts and the client send.
func TestRightsAreNeeded(t *testing.T) {
	used := slices.Clone(sentByClient)
	files, err := filepath.Glob("scripts/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		script, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range regexp.MustCompile(`redis\.p?call\('(\w+)'`).FindAllSubmatch(script, -1) {
			used = append(used, strings.ToLower(string(call[1])))
		}
	}
	slices.Sort(used)
	used = slices.Compact(used)
	var named []string
	for _, right := range strings.Fields(rights)[2:] {
		named = append(named, strings.TrimPrefix(right, "+"))
	}
	slices.Sort(named)
	if !slices.Equal(used, named) {
		t.Errorf("the commands are\n%q, and the rights\n%q", used, named)
	}
}

// infoOf returns what is behind a text in a section of INFO; "" where that is not there.
func infoOf(t testing.TB, server *redistest.Server, section, text string) string {
	t.Helper()
	_, rest, _ := strings.Cut(server.Client().Info(t.Context(), section).Val(), text)
	value, _, _ := strings.Cut(rest, ",")
	return value
}

// A call that nobody else comes before takes five calls of the server, and none that looks at all
// keys, but for one in a second.
func TestCommonCaseIsShort(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rl := limiterOf(t, server.Addr())
	server.Do("CONFIG", "RESETSTAT")
	began, calls := time.Now(), 300
	for range calls {
		if r, d := rl.Reserve(model, 1, 1); r != nil {
			r.Commit(1, 1)
		} else {
			t.Fatal(d)
		}
	}
	seconds := int(time.Since(began)/time.Second) + 1
	count := func(command string) (n int) {
		fmt.Sscanf(infoOf(t, server, "commandstats", "cmdstat_"+command+":calls="), "%d", &n)
		return n
	}
	if n := count("xadd"); n != 2*calls {
		t.Errorf("%d entries of %d calls", n, 2*calls)
	}
	if n := count("exists"); n > 3*seconds {
		t.Errorf("%d of %d calls look at all keys, in %d s", n, 2*calls, seconds)
	}
}
