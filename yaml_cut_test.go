// YAML files that were cut off.

package ratelimit_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// yamlFull persists a limiter with something in every section, and returns it with the file.
func yamlFull(t *testing.T) (rl *ratelimit.RateLimiter, path, whole string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "state.yaml")
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: path, Providers: []ratelimit.Provider{ratelimit.ProviderLocal},
		Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 150, MaxSpendPerDay: money.USD(9)}, "\xff": {}},
		Pools:  map[string]ratelimit.Pool{"p": {Models: []string{"m"}, Quota: ratelimit.ModelQuota{MaxTPD: 1_000_000}}},
		Prices: map[string]money.Price{"m": {Input: money.USD(1), Output: money.USD(2)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	rl.SetAccountQuotas(map[string]ratelimit.ModelQuota{"account": {MaxTPM: 5}})
	for i := range 3 {
		rl.RecordUsage("m", i, 2)
		rl.RecordUsage("n", 0, i)
	}
	rl.Cooldown("n", time.Now().Add(time.Hour))
	rl.ObserveAnswer("m", ratelimit.Usage{PromptTokens: 2}, ratelimit.Usage{PromptTokens: 3, OutputTokens: 4})
	yamlPersist(t, rl)
	return rl, path, yamlRead(t, path)
}

// yamlLines returns the first and the last line of a file of Persist, and what is between them.
func yamlLines(t *testing.T, path string) (first, last, content string) {
	t.Helper()
	lines := strings.Split(yamlRead(t, path), "\n")
	return lines[0], lines[len(lines)-2], yamlContent(t, path)
}

// Of a file that Persist wrote, no beginning loads, at whichever line it ends: a constructor with
// AutoPersist fails, and what Persist writes all the same leaves the beginning aside.
func TestYAMLCutFileIsRefused(t *testing.T) {
	t.Parallel()
	_, path, whole := yamlFull(t)
	kept := 0
	for n := range len(whole) {
		// Every byte is the turn of a test in internal/yamlstate, which is faster.
		if n > 0 && n < len(whole)-1 && whole[n-1] != '\n' && whole[n] != '\n' {
			continue
		}
		cut := whole[:n]
		if err := os.WriteFile(path, []byte(cut), 0o600); err != nil {
			t.Fatal(err)
		}
		rl := yamlLimiter(t, path)
		rl.RecordUsage("before", 1, 2)
		if err := rl.Load(); !errors.Is(err, ratelimit.ErrCorruptState) || rl.Stats("before").TPM != 3 || len(rl.Quotas) != 0 {
			t.Fatalf("cut after %d of %d bytes: Load = %v, with %v and\n%s", n, len(whole), err, rl.Quotas, yamlText(rl.State))
		}
		auto, err := ratelimit.NewWithConfig(ratelimit.Config{FilePath: path, AutoPersist: ratelimit.AutoPersist{Delay: time.Hour}})
		if !errors.Is(err, ratelimit.ErrCorruptState) {
			auto.Close()
			t.Fatalf("cut after %d bytes: a constructor with AutoPersist returns %v", n, err)
		}
		if err := ratelimit.MigrateYAMLToSQLite(path, path+".db"); !errors.Is(err, ratelimit.ErrCorruptState) && !errors.Is(err, ratelimit.ErrNoSQLite) {
			t.Fatalf("cut after %d bytes: MigrateYAMLToSQLite = %v", n, err)
		}
		if got := yamlRead(t, path); got != cut {
			t.Fatalf("cut after %d bytes: the file is %q", n, got)
		}
		yamlPersist(t, rl)
		kept++
		aside := yamlLitter(t, path)
		if len(aside) != kept || !strings.HasPrefix(aside[kept-1], "state.yaml.corrupt-") ||
			yamlRead(t, filepath.Join(filepath.Dir(path), aside[kept-1])) != cut {
			t.Fatalf("cut after %d bytes: beside the file lies %q", n, aside)
		}
		again := yamlLimiter(t, path)
		yamlLoad(t, again)
		if again.Stats("before").TPM != 3 {
			t.Fatalf("cut after %d bytes: persisted anew\n%s", n, yamlText(again.State))
		}
	}
}

// Whatever an editor makes of the line ends, and a person of the content, a whole file loads.
func TestYAMLWholeFileLoads(t *testing.T) {
	full, path, whole := yamlFull(t)
	first, last, content := yamlLines(t, path)
	if !strings.HasPrefix(first, "# ") || !strings.Contains(first, last) || !strings.HasPrefix(last, "# ") {
		t.Fatalf("the file begins with %q and ends with %q", first, last)
	}
	for name, text := range map[string]string{
		"as it is":              whole,
		"another line end":      whole + "\n",
		"white space":           strings.TrimSuffix(whole, "\n") + " \n \n\r\n",
		"CRLF":                  strings.ReplaceAll(whole, "\n", "\r\n"),
		"CR":                    strings.ReplaceAll(whole, "\n", "\r"),
		"byte order mark":       "\ufeff" + whole,
		"byte order mark, CRLF": "\ufeff" + strings.ReplaceAll(whole, "\n", "\r\n"),
		"a longer first line":   strings.Replace(whole, "\n", " Do not edit.\n", 1),
		"comments between":      first + "\n# by hand\n" + strings.ReplaceAll(content, "\n", "\n# by hand\n") + last + "\n",
		"without both":          content,
		"only the last line":    content + last + "\n",
		"a line before":         "# by hand\n" + whole,
		"document marks":        "---\n" + content + "...\n",
		"other keys":            first + "\n" + content + "note: 5\n" + last + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			rl := yamlLimiter(t, yamlWrite(t, text))
			yamlLoad(t, rl)
			if got, want := yamlText(rl.State), yamlText(full.State); got != want {
				t.Errorf("state =\n%swant\n%s", got, want)
			}
			if rl.Quotas["m"] != full.Quotas["m"] || rl.Quotas["account"] != full.Quotas["account"] {
				t.Errorf("quotas = %v, want %v", rl.Quotas, full.Quotas)
			}
		})
	}
}

// What is no beginning of a file of Persist is refused where it has the first line alone.
func TestYAMLFirstLineWithoutTheLast(t *testing.T) {
	_, path, whole := yamlFull(t)
	first, last, content := yamlLines(t, path)
	for name, text := range map[string]string{
		"the last line removed":      first + "\n" + content,
		"the last line in the midst": first + "\n" + last + "\n" + content,
		"not a line of its own":      strings.TrimSuffix(first+"\n"+content, "\n") + " " + last + "\n",
		"the last line indented":     first + "\n" + content + "    " + last + "\n",
		"no line end":                whole[:len(whole)-1],
		"zeros at the end":           whole + strings.Repeat("\x00", 512),
		"two files, the second cut":  whole + first + "\n",
		"the first line alone":       first,
		"nothing between":            first + last + "\n",
		"cut, with CRLF":             strings.ReplaceAll(first+"\n"+content, "\n", "\r\n"),
		"cut, with a byte order":     "\ufeff" + first + "\n" + content,
		"a byte order mark alone":    "\ufeff",
	} {
		t.Run(name, func(t *testing.T) {
			err := yamlRefused(t, yamlWrite(t, text))
			if !strings.Contains(err.Error(), strconv.Quote(last)) {
				t.Errorf("the error does not tell what is missing: %v", err)
			}
		})
	}
}

// A file of a version before that is cut at any byte is refused, or loads as the beginning of the
// whole.
func TestYAMLCutFilesOfVersionsBefore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.yaml")
	rl := yamlLimiter(t, path)
	rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 150, MaxTPM: 1_000_000, MaxRPD: 1_000})
	rl.SetQuota("\xff", ratelimit.ModelQuota{})
	rl.RecordUsage("m", 1_000, 0)
	rl.RecordUsage("m", 10, 0)
	rl.RecordUsage("n", 0, 0)
	yamlPersist(t, rl)
	whole := yamlContent(t, path)
	loaded := 0
	for n := range len(whole) + 1 {
		if err := os.WriteFile(path, []byte(whole[:n]), 0o600); err != nil {
			t.Fatal(err)
		}
		cut := yamlLimiter(t, path)
		if cut.Load() != nil {
			continue
		}
		loaded++
		for model, got := range cut.Quotas {
			want, ok := rl.Quotas[model]
			if !ok || !begins(want.MaxRPM, got.MaxRPM) || !begins(want.MaxTPM, got.MaxTPM) || !begins(want.MaxRPD, got.MaxRPD) {
				t.Errorf("cut after %d bytes, the quota of %q is %v", n, model, got)
			}
		}
		for model, got := range cut.State {
			want := rl.State[model]
			if want == nil || len(got.Requests) > len(want.Requests) || len(got.Tokens) > len(want.Tokens) ||
				!begins(want.DayCount, got.DayCount) || !got.DayStart.IsZero() && !got.DayStart.Equal(want.DayStart) {
				t.Fatalf("cut after %d bytes, the state is\n%s", n, yamlText(cut.State))
			}
			for i, at := range got.Requests {
				if !at.Equal(want.Requests[i]) {
					t.Errorf("cut after %d bytes, request %d of %q is %v", n, i, model, at)
				}
			}
			for i, e := range got.Tokens {
				if !e.Time.Equal(want.Tokens[i].Time) || !begins(want.Tokens[i].Count, e.Count) {
					t.Errorf("cut after %d bytes, token entry %d of %q is %v", n, i, model, e)
				}
			}
		}
	}
	if loaded == 0 {
		t.Error("no file of a version before loads")
	}
}

// begins reports whether a number may be what is left of another one.
func begins(whole, cut int) bool {
	return cut == 0 || strings.HasPrefix(strconv.Itoa(whole), strconv.Itoa(cut))
}
