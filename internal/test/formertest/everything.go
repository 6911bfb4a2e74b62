package formertest

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

//go:embed testdata/everything.go
var everything string

// Everything builds a program that uses all that a shared store holds. Its arguments are "shared"
// or "private", the path of a database, and its LeaseTTL; its orders are in its source.
func Everything(t testing.TB, commit string) (program string) {
	t.Helper()
	return Build(t, commit, ".", everything)
}

// EverythingRedis is Everything for a program whose second argument is the address of a server of
// Redis, and whose first is a prefix there.
func EverythingRedis(t testing.TB, commit string) (program string) {
	t.Helper()
	source := everything
	for _, change := range [][2]string{
		{"return ratelimit.NewWithSQLiteConfig(os.Args[2], cfg)", `client := redis.NewClient(&redis.Options{Addr: os.Args[2]})
	store, err := redisstore.New(context.Background(), client, redisstore.Options{Prefix: os.Args[1], Timeout: 5 * time.Second})
	if err != nil {
		return nil, err
	}
	cfg.Shared, cfg.Store = false, store
	return ratelimit.NewWithConfig(cfg)`},
		{`"dappco.re/go/core/go-ratelimit/money"`, `"dappco.re/go/core/go-ratelimit/money"
	"dappco.re/go/core/go-ratelimit/redisstore"
	"github.com/redis/go-redis/v9"`},
	} {
		source = strings.Replace(source, change[0], change[1], 1)
	}
	return Build(t, commit, "redisstore", source)
}

// MustDo is Do for an order that must not fail.
func (p *Process) MustDo(order string) {
	p.t.Helper()
	if said := p.Do(order); said.Error != "" {
		p.t.Fatalf("%s: %s", order, said.Error)
	}
}

// Dump has a program of Everything say what it knows.
func (p *Process) Dump() *Dump {
	p.t.Helper()
	path := filepath.Join(p.t.TempDir(), "dump.json")
	p.MustDo("dump " + path)
	text, err := os.ReadFile(path)
	if err != nil {
		p.t.Fatal(err)
	}
	d := new(Dump)
	if err := json.Unmarshal(text, d); err != nil {
		p.t.Fatal(err)
	}
	return d
}

// stats is what a program of before says of a model or a pool.
type stats struct {
	RPM, TPM, ITPM, OTPM, RPD, TPD int
	InFlight                       int       `json:"in_flight"`
	DayStart                       time.Time `json:"day_start"`
	CooldownUntil                  time.Time `json:"cooldown_until"`
	AdaptiveRPM                    int       `json:"adaptive_rpm"`
	AdaptiveInFlight               int       `json:"adaptive_in_flight"`

	SpendDay   money.Amount `json:"spend_day"`
	SpendMonth money.Amount `json:"spend_month"`
}

// Dump is what a program of before says of all names.
type Dump struct {
	Stats, Pools                      map[string]stats
	Quotas, Said, PoolQuotas, Classes map[string]string
	Members                           map[string][]string
	Causes                            map[string]string
}

func statsOf(s *fleet.State, name string, now account.Now) (is stats) {
	a := s.Engine.Account(name)
	if a == nil {
		return is
	}
	for of, into := range map[state.Dimension]*int{
		state.RPM: &is.RPM, state.TPM: &is.TPM, state.ITPM: &is.ITPM, state.OTPM: &is.OTPM, state.RPD: &is.RPD, state.TPD: &is.TPD,
	} {
		*into = a.Used(of, s.Engine.Span(), now)
	}
	is.InFlight = a.InFlight
	if is.RPD > 0 || is.TPD > 0 {
		_, _, day := a.DayUsed(now.Wall)
		is.DayStart = time.Unix(0, day.Begin)
	}
	if a.CoolUntil > now.Wall {
		is.CooldownUntil = time.Unix(0, a.CoolUntil)
	}
	is.SpendDay, is.SpendMonth = a.Spend.OfDay(now.Wall), a.Spend.OfMonth(now.Wall)
	is.AdaptiveRPM, is.AdaptiveInFlight = a.Found.View().Found(now.Instant)
	return is
}

// dumpOf says what a program of before says, of the same names.
func dumpOf(s *fleet.State, like *Dump) *Dump {
	now := s.Now()
	c := s.Engine.Catalog
	is := &Dump{
		Stats: make(map[string]stats), Pools: make(map[string]stats), Quotas: make(map[string]string), Said: printed(c.Account()),
		PoolQuotas: make(map[string]string), Classes: printed(s.Engine.Classes()), Members: make(map[string][]string),
		Causes: make(map[string]string),
	}
	for name := range like.Stats {
		is.Stats[name] = statsOf(s, name, now)
		if _, q, ok := c.Cover(name); ok {
			is.Quotas[name] = former(q)
		}
		if a := s.Engine.Account(name); a != nil && a.CoolUntil > now.Wall {
			is.Causes[name] = a.CoolCause
		} else {
			is.Causes[name] = ""
		}
	}
	for _, counted := range c.PoolNames() {
		name, _ := state.PoolOf(counted)
		pool, _ := c.Pool(counted)
		is.Pools[name], is.PoolQuotas[name], is.Members[name] = statsOf(s, counted, now), former(pool.Quota), pool.Members
	}
	return is
}

func printed[V any](all map[string]V) map[string]string {
	texts := make(map[string]string)
	for name, v := range all {
		texts[name] = former(v)
	}
	return texts
}

// former prints a value as a program of before does, whose quotas had no windows.
func former(v any) string {
	return strings.ReplaceAll(fmt.Sprintf("%+v", v), " MaxSpendPerTenMinutes:$0.00 MaxTokensPerMonth:0", "")
}

// WantSame fails the test where a state is not what a program of before said. slots says whether
// calls in flight still are.
func WantSame(t testing.TB, s *fleet.State, want *Dump, slots bool) {
	t.Helper()
	got := dumpOf(s, want)
	for _, of := range []struct {
		what      string
		got, want map[string]stats
	}{{"model", got.Stats, want.Stats}, {"pool", got.Pools, want.Pools}} {
		for _, name := range slices.Sorted(maps.Keys(of.want)) {
			is, was := of.got[name], of.want[name]
			for _, at := range []*time.Time{&is.DayStart, &was.DayStart, &is.CooldownUntil, &was.CooldownUntil} {
				*at = at.UTC()
			}
			if !slots {
				was.InFlight = 0
			}
			if is != was {
				t.Errorf("%s %q:\n got %+v\nwant %+v", of.what, name, is, was)
			}
		}
	}
	for what, of := range map[string][2]map[string]string{
		"quotas": {got.Quotas, want.Quotas}, "the account": {got.Said, want.Said}, "pools": {got.PoolQuotas, want.PoolQuotas},
		"classes": {got.Classes, want.Classes}, "causes": {got.Causes, want.Causes},
	} {
		if !maps.Equal(of[0], of[1]) {
			t.Errorf("%s:\n got %v\nwant %v", what, of[0], of[1])
		}
	}
	if !maps.EqualFunc(got.Members, want.Members, slices.Equal) {
		t.Errorf("members %v, want %v", got.Members, want.Members)
	}
}
