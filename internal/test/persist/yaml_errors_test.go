// YAML files that are refused, and what the error says.

package persist

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

// Whatever a file is refused for, limiter and file stay as they were. What it is refused for is
// tested in internal/yamlfile.
func TestYAMLRefusesWhatIsWrong(t *testing.T) {
	for _, test := range []struct{ content, text string }{
		{"quotas:\n  m:\n    max_tpm: -1\n", `quotas.m.max_tpm: invalid quota: -1 is negative`},
		{"quotas: {gpt-4o: {max_rpm: 1}}\nstate: {m: {day_count: -42}}", `state.m.day_count: -42 is negative`},
		{"state: {m: {day_count: 9}}\ncooldowns:\n  m:\n    until: 5m\n", `cooldowns.m.until: "5m" is not a time of RFC 3339`},
		{statefile.Sample + "---\nquotas: {}\n", `a second document`},
		{"quotas: [", `yaml: line 1: did not find expected node content`},
		{"", `the file is empty: it was cut off`},
	} {
		path := statefile.Write(t, test.content)
		err := yamlRefused(t, path)
		if got, want := err.Error(), "load: corrupt state: "+path+": "+test.text; got != want {
			t.Errorf("error\n%s, want\n%s", got, want)
		}
		if got, want := errors.Is(err, ratelimit.ErrInvalidQuota), strings.Contains(test.text, "invalid quota"); got != want {
			t.Errorf("%v: it is ErrInvalidQuota: %v, want %v", err, got, want)
		}
	}
}

// yamlRefused checks that the file at path cannot be loaded, that the error is
// as it has to be, and that limiter and file stay as they were. It returns the
// error.
func yamlRefused(t *testing.T, path string) error {
	t.Helper()
	rl := limitertest.YAML(t, path)
	rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 2})
	rl.AddProvider(ratelimit.ProviderOpenAI)
	rl.RecordUsage("m", 5, 0)
	rl.RecordUsage("gpt-4o", 6, 0)
	quotas, state, content := len(rl.Quotas), limitertest.Text(rl.State), statefile.Read(t, path)

	err := rl.Load()
	if !errors.Is(err, ratelimit.ErrCorruptState) {
		t.Fatalf("Load = %v, want ErrCorruptState", err)
	}
	if text := err.Error(); len(text) > 1024 || !utf8.ValidString(text) {
		t.Errorf("the error is of %d bytes: %q", len(text), text)
	}
	if limitertest.Text(rl.State) != state || len(rl.Quotas) != quotas || rl.Quotas["m"] != (ratelimit.ModelQuota{MaxRPM: 2}) ||
		rl.Quotas["gpt-4o"] != ratelimit.DefaultProfiles()[ratelimit.ProviderOpenAI].Models["gpt-4o"] {
		t.Errorf("the limiter changed to %v and\n%s", rl.Quotas, limitertest.Text(rl.State))
	}
	if statefile.Read(t, path) != content {
		t.Error("the file changed")
	}
	if litter := statefile.Litter(t, path); litter != nil {
		t.Errorf("Load left %q", litter)
	}
	return err
}

// The file that could not be loaded is kept when Persist writes a new one.
func TestYAMLPersistKeepsWhatCouldNotBeLoaded(t *testing.T) {
	const broken = "quotas: {m: {max_rpm: -1}}\n"
	path := statefile.Write(t, broken)
	rl := limitertest.YAML(t, path)
	rl.RecordUsage("m", 5, 0)
	want := limitertest.Text(rl.State)
	if rl.Load() == nil {
		t.Fatal("it loads")
	}
	limitertest.Save(t, rl)

	kept := statefile.Litter(t, path)
	if len(kept) != 1 || !strings.HasPrefix(kept[0], "state.yaml.corrupt-2") {
		t.Fatalf("beside the file lies %q", kept)
	}
	keptPath := filepath.Join(filepath.Dir(path), kept[0])
	if got := statefile.Read(t, keptPath); got != broken {
		t.Errorf("%s holds %q", keptPath, got)
	}
	again := limitertest.YAML(t, path)
	limitertest.Load(t, again)
	if got := limitertest.Text(again.State); got != want {
		t.Errorf("state =\n%swant\n%s", got, want)
	}

	// What was written in its place is good, and is not kept.
	limitertest.Save(t, rl)
	limitertest.Save(t, again)
	if got := statefile.Litter(t, path); !reflect.DeepEqual(got, kept) {
		t.Errorf("beside the file lies %q, want %q", got, kept)
	}

	// The next broken one is, and the first stays.
	if err := os.WriteFile(path, []byte("?"), 0o600); err != nil {
		t.Fatal(err)
	}
	if again.Load() == nil {
		t.Fatal("it loads")
	}
	limitertest.Save(t, again)
	if got := statefile.Litter(t, path); len(got) != 2 || statefile.Read(t, keptPath) != broken {
		t.Errorf("beside the file lies %q", got)
	}
}

func TestYAMLPersistKeepsNothingElse(t *testing.T) {
	tests := map[string]func(t *testing.T, rl *ratelimit.RateLimiter, path string){
		"a file that nobody loaded": func(*testing.T, *ratelimit.RateLimiter, string) {},
		"a file that was removed after it could not be loaded": func(t *testing.T, rl *ratelimit.RateLimiter, path string) {
			if rl.Load() == nil {
				t.Fatal("it loads")
			}
			os.Remove(path)
		},
		"a file that was put right and loaded": func(t *testing.T, rl *ratelimit.RateLimiter, path string) {
			if rl.Load() == nil {
				t.Fatal("it loads")
			}
			os.WriteFile(path, []byte(statefile.Sample), 0o600)
			limitertest.Load(t, rl)
		},
		"a file that was gone at the next Load": func(t *testing.T, rl *ratelimit.RateLimiter, path string) {
			if rl.Load() == nil {
				t.Fatal("it loads")
			}
			os.Remove(path)
			limitertest.Load(t, rl)
			os.WriteFile(path, []byte("?"), 0o600)
		},
	}
	for name, before := range tests {
		t.Run(name, func(t *testing.T) {
			path := statefile.Write(t, "[")
			rl := limitertest.YAML(t, path)
			before(t, rl, path)
			limitertest.Save(t, rl)
			if litter := statefile.Litter(t, path); litter != nil {
				t.Errorf("beside the file lies %q", litter)
			}
		})
	}
}

// A file system error keeps its kind.
func TestYAMLRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	rl := limitertest.YAML(t, dir)
	err := rl.Load()
	if !errors.Is(err, ratelimit.ErrCorruptState) || err.Error() != "load: corrupt state: "+dir+": not a regular file" {
		t.Errorf("Load of a folder = %v", err)
	}
	if err := rl.Persist(); err == nil || err.Error() != "persist: "+dir+": not a regular file" {
		t.Errorf("Persist to a folder = %v", err)
	}

	below := filepath.Join(statefile.Write(t, statefile.Sample), "state.yaml")
	rl = limitertest.YAML(t, below)
	if err := rl.Load(); err != nil && !errors.Is(err, ratelimit.ErrCorruptState) { // on Windows it is merely missing
		t.Errorf("Load below a file = %v", err)
	}
	if err := rl.Persist(); err == nil || errors.Is(err, fs.ErrExist) {
		t.Errorf("Persist below a file = %v", err)
	}
}

func TestYAMLWithoutAFile(t *testing.T) {
	rl := &ratelimit.RateLimiter{}
	rl.RecordUsage("m", 1, 1)
	for name, err := range map[string]error{"load": rl.Load(), "persist": rl.Persist()} {
		if err == nil || errors.Is(err, ratelimit.ErrCorruptState) || err.Error() != name+": the limiter has no state file: make it with a constructor" {
			t.Errorf("%s without a constructor: %v", name, err)
		}
	}
	if rl.Stats("m").TPM != 2 {
		t.Error("the limiter lost what was used")
	}
}
