// Logs of the layout before, which programs of the commit before have left.

package redisstore

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
	"dappco.re/go/core/go-ratelimit/internal/former"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store"
	"dappco.re/go/core/go-ratelimit/internal/test/formertest"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

func TestTakeOver(t *testing.T) {
	program := formertest.EverythingRedis(t, formertest.BeforeOrder)
	server := redistest.Start(t)
	client := clientOf(t, server.Addr())
	start := func(t *testing.T, prefix, lease string) *formertest.Process {
		t.Helper()
		p, said := formertest.Start(t, program, prefix, server.Addr(), lease)
		if said.Error != "" {
			t.Fatal(said.Error)
		}
		return p
	}
	open := func(t *testing.T, prefix string, within time.Duration) (*Log, error) {
		t.Helper()
		s, err := New(t.Context(), client, Options{Prefix: prefix, Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		s.options.OpenTimeout = within
		l, err := s.Open(t.Context(), store.Options{Process: 1})
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { l.Close() })
		return l.(*Log), nil
	}
	for name, end := range map[string]func(*formertest.Process){
		"closed": (*formertest.Process).End, "killed": (*formertest.Process).Kill,
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, name, "1s")
			p.MustDo("fill")
			if _, err := open(t, name, time.Second/2); !errors.Is(err, errFormerLives) {
				t.Fatalf("beside the program of before: %v", err)
			}
			p.MustDo("reset")
			p.MustDo("fill")
			want := p.Dump()
			end(p)
			l, err := open(t, name, 20*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			image, err := l.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s, err := fleet.Read(image.Bytes, nil)
			if err != nil {
				t.Fatal(err)
			}
			formertest.WantSame(t, s, want, false)
			news, err := l.Append(t.Context(), image.At, oneEntry(1))
			if err != nil || len(news.Entries) != 1 {
				t.Fatalf("%+v, %v", news, err)
			}
			if late := s.TimeOf(news.Entries[0].Stamp) - s.Now().Instant; late < 0 || late > int64(time.Minute) {
				t.Errorf("the log goes on %v after its image", time.Duration(late))
			}
			if l.Learned()["m"].Count < 40 {
				t.Errorf("learned %+v", l.Learned())
			}
			if _, said := formertest.Start(t, program, name, server.Addr(), "1s"); !strings.Contains(said.Error, "the store is of a later version") {
				t.Errorf("opened again: %+v", said)
			}
			second, err := open(t, name, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := second.Load(t.Context()); err != nil || again.At != image.At {
				t.Errorf("another one has %+v, %v", again.At, err)
			}
		})
	}
	t.Run("damaged", func(t *testing.T) { testDamaged(t, client, start(t, "whole", "1s"), open) })
}

// testDamaged has a program leave a log, and damages copies of that.
func testDamaged(t *testing.T, client *redis.Client, p *formertest.Process, open func(*testing.T, string, time.Duration) (*Log, error)) {
	p.MustDo("fill")
	p.End()
	key := func(prefix, name string) string { return keysOf(prefix, formerLayout, name)[0] }
	copied := func(t *testing.T) string {
		t.Helper()
		prefix := strings.ReplaceAll(t.Name(), "/", ":")
		for _, name := range formerNames {
			if err := client.Copy(t.Context(), key("whole", name), key(prefix, name), 0, false).Err(); err != nil {
				t.Fatal(err)
			}
		}
		return prefix
	}
	for what, damage := range map[string]struct {
		key, field, value string
	}{
		`day of "m"`: {"days", "m", "x"}, `spend of "m"`: {"spend", "m", "x"}, `quota of "m"`: {"quotas", "pm", "{"},
		`found limit of "search"`: {"found", "search", "{"}, `cooldown of "m"`: {"cooldowns", "m", ""},
	} {
		t.Run(what, func(t *testing.T) {
			prefix := copied(t)
			if err := client.HSet(t.Context(), key(prefix, damage.key), damage.field, damage.value).Err(); err != nil {
				t.Fatal(err)
			}
			if _, err := open(t, prefix, time.Second); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("opened: %v", err)
			}
		})
	}
	t.Run("an event", func(t *testing.T) {
		prefix := copied(t)
		if err := client.XAdd(t.Context(), &redis.XAddArgs{Stream: key(prefix, "log"), ID: "999999-5", Values: []string{"e", "\x01\x00\x01"}}).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := open(t, prefix, time.Second); !errors.Is(err, errEntry) {
			t.Errorf("opened: %v", err)
		}
	})
	for _, evicted := range []string{"log", "spend"} {
		t.Run("without "+evicted, func(t *testing.T) {
			prefix := copied(t)
			client.Del(t.Context(), key(prefix, evicted))
			l, err := open(t, prefix, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			image, err := l.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s, err := fleet.Read(image.Bytes, nil)
			if err != nil {
				t.Fatal(err)
			}
			if held := s.Member(-1); held == nil || held.Until < s.Now().Instant+int64(time.Minute) {
				t.Errorf("the minute does not count as used: %+v", held)
			}
		})
	}
}

// Whatever an entry is: it is refused, or has events that can be told from others.
func FuzzFormerEntry(f *testing.F) {
	f.Add("7-123", "\x01\x00\x05\x01\x02m\x10\x02\x00\x02\x02", "")
	f.Add("7-123", "\x02\x00\x05\x01\x02m\xff\x01\x00\x02\x02\x02\x02\x02\x02\x02\x02\x01x\x0b12345678990 8", "01")
	f.Fuzz(func(t *testing.T, id, value, dropped string) {
		seq := int64(math.MinInt64)
		err := formerEvents(id, value, dropped, func(e *former.Event) error {
			if e.Seq < seq {
				t.Fatalf("event %d behind event %d", e.Seq, seq)
			}
			seq = e.Seq + 1
			return nil
		})
		if err != nil && !errors.Is(err, errEntry) {
			t.Fatal(err)
		}
	})
}

// Whatever the fields of the hashes are: they are refused, or part of an image.
func FuzzFormerFields(f *testing.F) {
	day := "\x80\x00\x00\x00\x00\x00\x00\x00"
	for i, text := range []string{
		day + "1 2", day + "reset", `{"RPM":5}`, `{"models":["m","*"]}`, `{}`, day + day + day + day + "1 2 3", `{"MaxRPM":5,"DayZone":"Asia/Tokyo"}`,
	} {
		for _, field := range []string{"m", "\x1fpool:p", "\x00\x00m", "am", "pm", "c"} {
			f.Add(byte(i), field, text)
			f.Add(byte(i), field, "")
		}
	}
	f.Fuzz(func(t *testing.T, hash byte, field, text string) {
		now := time.Unix(1_700_000_000, 0).UnixNano()
		is := &taking{Content: former.New(account.Now{Instant: now, Wall: now}), answers: make(map[string]state.Answers)}
		name, ok := formerName(field)
		if !ok {
			return
		}
		add := []func(name, text string) error{
			adding(is.Days, parseDay), adding(is.Cooldowns, parseCooldown), adding(is.Found, state.ParseFound),
			is.addPool, is.addAnswers, adding(is.Spend, parseSpent), is.addQuota,
		}[hash%7]
		if err := add(name, text); err != nil {
			return
		}
		for name, said := range is.Said {
			is.Quotas[name] = catalog.QuotaOf(said)
		}
		if _, err := is.Image(1); err != nil && is.Classes == "" {
			t.Fatal(err)
		}
	})
}
