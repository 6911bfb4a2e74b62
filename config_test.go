// Config: what is refused, where the state file lies, that constructors do not load, and its YAML.

package ratelimit_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"gopkg.in/yaml.v3"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

func TestBadConfig(t *testing.T) {
	tests := []struct {
		name string
		cfg  ratelimit.Config
		is   error
		says []string
	}{
		{"unknown backend", ratelimit.Config{Backend: "redis"}, nil, []string{"redis", "yaml", "sqlite"}},
		{"negative margin", ratelimit.Config{Margin: -time.Second}, nil, []string{"Margin", "-1s"}},
		{"margin too large", ratelimit.Config{Margin: 1 << 62}, nil, []string{"Margin"}},
		{"the largest margin", ratelimit.Config{Margin: 1<<63 - 1}, nil, []string{"Margin", "24h"}},
		{"negative requests per minute", ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"gpt": {MaxRPM: -5}}}, ratelimit.ErrInvalidQuota, []string{"gpt", "MaxRPM", "-5"}},
		{"negative tokens per minute", ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"gpt": {MaxTPM: -6}}}, ratelimit.ErrInvalidQuota, []string{"gpt", "MaxTPM", "-6"}},
		{"negative requests per day", ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"gpt": {MaxRPD: -7}}}, ratelimit.ErrInvalidQuota, []string{"gpt", "MaxRPD", "-7"}},
	}
	for _, tt := range tests {
		for _, backend := range backends {
			t.Run(tt.name+" "+backend, func(t *testing.T) {
				cfg := tt.cfg
				if cfg.Backend == "" {
					cfg.Backend = backend
				}
				cfg.FilePath = filepath.Join(t.TempDir(), "folder", "state")
				rl, err := ratelimit.NewWithConfig(cfg)
				if err == nil || rl != nil {
					t.Fatalf("got %v, %v", rl, err)
				}
				if tt.is != nil && !errors.Is(err, tt.is) {
					t.Errorf("%v is not %v", err, tt.is)
				}
				for _, text := range tt.says {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("%q does not say %q", err, text)
					}
				}
				if _, err := os.Stat(filepath.Dir(cfg.FilePath)); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("a refused config made a folder: %v", err)
				}
			})
		}
	}
}

func TestStateFileLocation(t *testing.T) {
	tests := []struct {
		name                     string
		coreHome, home, userHome string
		backend                  string
		want                     string
	}{
		{"CORE_HOME first", "core", "home", "user", "", "core/.core/ratelimits.yaml"},
		{"then HOME", "", "home", "user", "yaml", "home/.core/ratelimits.yaml"},
		{"then USERPROFILE", "", "", "user", " YAML\t", "user/.core/ratelimits.yaml"},
		{"sqlite", "", "home", "", "SQLite", "home/.core/ratelimits.db"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if strings.HasSuffix(tt.want, ".db") {
				needSQLite(t)
			}
			dir := t.TempDir()
			for env, home := range map[string]string{"CORE_HOME": tt.coreHome, "HOME": tt.home, "USERPROFILE": tt.userHome} {
				if home != "" {
					home = filepath.Join(dir, home)
				}
				t.Setenv(env, home)
			}
			rl, err := ratelimit.NewWithConfig(ratelimit.Config{Backend: tt.backend})
			if err != nil {
				t.Fatal(err)
			}
			defer rl.Close()
			if err := rl.Persist(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, filepath.FromSlash(tt.want))
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info, err)
			}
			if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("%v, %v", info, err)
			}
		})
	}
	for _, env := range []string{"CORE_HOME", "HOME", "USERPROFILE"} {
		t.Setenv(env, "")
	}
	if _, err := ratelimit.New(); err == nil || !strings.Contains(err.Error(), "CORE_HOME") {
		t.Errorf("without a home folder: %v", err)
	}
	if _, err := ratelimit.NewWithConfig(ratelimit.Config{FilePath: filepath.Join(t.TempDir(), "s.yaml")}); err != nil {
		t.Errorf("with a path no home folder is needed: %v", err)
	}
}

// A limiter that never persists leaves nothing in the home folder.
func TestConstructorWritesNothing(t *testing.T) {
	home := t.TempDir()
	t.Setenv("CORE_HOME", home)
	rl, err := ratelimit.New()
	if err != nil {
		t.Fatal(err)
	}
	rl.RecordUsage("gemini-2.5-pro", 1, 1)
	if err := errors.Join(rl.Load(), rl.Close()); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(home)
	if err != nil || len(entries) > 0 {
		t.Errorf("the home folder has %v (%v), want nothing", entries, err)
	}
}

func TestConstructorsDoNotLoad(t *testing.T) {
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			cfg := ratelimit.Config{Backend: backend, FilePath: filepath.Join(t.TempDir(), "state")}
			first := newLimiterWith(t, cfg)
			first.RecordUsage("gemini-2.5-pro", 1, 1)
			if err := errors.Join(first.Persist(), first.Close()); err != nil {
				t.Fatal(err)
			}
			second := newLimiterWith(t, cfg)
			defer second.Close()
			if len(second.State) != 0 {
				t.Errorf("state is %v", second.State)
			}
			if err := second.Load(); err != nil || second.Stats("gemini-2.5-pro").RPM != 1 {
				t.Errorf("after Load: %+v, %v", second.Stats("gemini-2.5-pro"), err)
			}
		})
	}
}

func TestIteratorsHoldNoLock(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{})
	for model := range rl.Models() {
		rl.SetQuota(model, ratelimit.ModelQuota{MaxRPM: 3})
		rl.SetQuota("new-"+model, ratelimit.ModelQuota{})
	}
	for model, stats := range rl.Iter() {
		rl.RecordUsage(model, 1, 1)
		if stats.RPM != 0 {
			t.Errorf("%s was visited after its record", model)
		}
		rl.Reset("")
		if model == "gemini-2.5-pro" {
			break
		}
	}
	for range rl.Models() {
		break
	}
}

// snakeCase returns the key of a field in YAML.
func snakeCase(field string) string {
	var key strings.Builder
	for i, r := range field {
		if unicode.IsUpper(r) && i > 0 && (unicode.IsLower(rune(field[i-1])) || i+1 < len(field) && unicode.IsLower(rune(field[i+1]))) {
			key.WriteByte('_')
		}
		key.WriteRune(unicode.ToLower(r))
	}
	return key.String()
}

// A new field of Config needs a tag. Functions, and what else no text can hold, have "-".
func TestConfigFieldsHaveKeys(t *testing.T) {
	var visit func(of reflect.Type)
	visit = func(of reflect.Type) {
		for i := range of.NumField() {
			field := of.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			kind := field.Type.Kind()
			want := snakeCase(field.Name)
			if kind == reflect.Func || kind == reflect.Interface || kind == reflect.Chan || kind == reflect.Pointer {
				want = "-"
			}
			if name != want {
				t.Errorf("%v.%s has the yaml tag %q, want %q", of, field.Name, name, want)
			}
			if kind == reflect.Map {
				kind = field.Type.Elem().Kind()
				if kind == reflect.Struct {
					visit(field.Type.Elem())
				}
			} else if kind == reflect.Struct {
				visit(field.Type)
			}
		}
	}
	visit(reflect.TypeFor[ratelimit.Config]())
}

// Texts that ReadConfig accepts, for the fields that are not free text.
var configTexts = map[string]string{
	"Backend": "sqlite", "Durability": "power", "DayZone": "America/Los_Angeles", "Providers": "anthropic",
	"Tiers": "start", "Tiers key": "anthropic",
}

// filledConfig returns a Config in which no field is zero, but for those that YAML leaves out.
func filledConfig(t *testing.T) ratelimit.Config {
	var fill func(v reflect.Value, field string)
	fill = func(v reflect.Value, field string) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				if f := v.Type().Field(i); f.Tag.Get("yaml") != "-" {
					fill(v.Field(i), f.Name)
				}
			}
		case reflect.Map:
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(key, field+" key")
			fill(value, field)
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(key, value)
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), field)
		case reflect.Array:
			fill(v.Index(0), field)
		case reflect.String:
			text, ok := configTexts[field]
			if !ok {
				text = "a: b"
			}
			v.SetString(text)
		case reflect.Bool:
			v.SetBool(true)
		default:
			switch {
			case v.Type() == reflect.TypeFor[time.Duration]():
				v.SetInt(int64(1500 * time.Millisecond))
			case v.CanInt():
				v.SetInt(1)
			default:
				t.Errorf("%s has a %v, which a text cannot hold: give it the tag yaml:\"-\"", field, v.Type())
			}
		}
	}
	var cfg ratelimit.Config
	fill(reflect.ValueOf(&cfg).Elem(), "Config")
	return cfg
}

func TestConfigRoundTrip(t *testing.T) {
	filled := filledConfig(t)
	withFunc := filled
	withFunc.OnError = func(error) {}
	for name, c := range map[string]struct{ cfg, want ratelimit.Config }{
		"zero":                   {},
		"no field is zero":       {filled, filled},
		"OnError is left out":    {withFunc, filled},
		"Quotas":                 {ratelimit.Config{Quotas: ratelimit.DefaultProfiles()[ratelimit.ProviderGemini].Models}, ratelimit.Config{Quotas: ratelimit.DefaultProfiles()[ratelimit.ProviderGemini].Models}},
		"empty maps become none": {ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{}, Aliases: map[string]string{}}, ratelimit.Config{}},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := yaml.Marshal(c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := ratelimit.ReadConfig(bytes.NewReader(text)); err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("ReadConfig: got %+v, %v\nwant %+v\nfrom\n%s", got, err, c.want, text)
			}
			var got ratelimit.Config
			if err := yaml.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("yaml.Unmarshal: got %+v, %v\nwant %+v\nfrom\n%s", got, err, c.want, text)
			}
		})
	}
}

// A file is read and edited by people.
func TestConfigIsReadable(t *testing.T) {
	text, err := yaml.Marshal(ratelimit.Config{
		FilePath: "/var/lib/app/quota.db", Backend: "sqlite", Margin: 250 * time.Millisecond,
		Quotas:      map[string]ratelimit.ModelQuota{"gpt-4o": {MaxRPM: 500, MaxTPM: 30_000, Burst: 10 * time.Second}},
		Providers:   []ratelimit.Provider{ratelimit.ProviderAnthropic},
		AutoPersist: ratelimit.AutoPersist{Delay: time.Second},
	})
	const want = `file_path: /var/lib/app/quota.db
backend: sqlite
quotas:
    gpt-4o:
        max_rpm: 500
        max_tpm: 30000
        max_rpd: 0
        burst: 10s
providers:
    - anthropic
margin: 250ms
auto_persist:
    delay: 1s
`
	if err != nil || string(text) != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, text, want)
	}
}

// The file in docs/sdk.md is one that ReadConfig reads.
func TestReadConfigOfSDK(t *testing.T) {
	sdk, err := os.ReadFile("docs/sdk.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(sdk), "```yaml\nfile_path")
	text, _, found := strings.Cut("file_path"+text, "```")
	cfg, err := ratelimit.ReadConfig(strings.NewReader(text))
	if !found || err != nil || len(cfg.Quotas) != 3 || cfg.Quotas["gpt-4o"].Burst != 2*time.Second {
		t.Errorf("got %+v, %v", cfg, err)
	}
}

// So is the one of a limit that is searched for.
func TestReadConfigOfAdaptive(t *testing.T) {
	adaptive, err := os.ReadFile("docs/adaptive.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(adaptive), "```yaml\n")
	text, _, found := strings.Cut(text, "```")
	cfg, err := ratelimit.ReadConfig(strings.NewReader(text))
	want := ratelimit.ModelQuota{
		AdaptiveFloorRPM: 30, AdaptiveCeilingRPM: 6000, AdaptiveFloorInFlight: 2, AdaptiveCeilingInFlight: 64, MaxTPM: 500_000,
	}
	if !found || err != nil || cfg.Quotas["pool/llama-4"] != want {
		t.Errorf("got %+v, %v", cfg, err)
	}
}

// Each field refuses a value that it cannot have, and says which field and value that was.
func TestReadConfigNamesFieldAndValue(t *testing.T) {
	of := reflect.TypeFor[ratelimit.Config]()
	for i := range of.NumField() {
		field := of.Field(i)
		key, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		value := "nonsense"
		switch field.Type.Kind() {
		case reflect.Func, reflect.Interface:
			key = snakeCase(field.Name)
		case reflect.String:
			value = "[nonsense]"
		}
		_, err := ratelimit.ReadConfig(strings.NewReader("# one line\n" + key + ": " + value))
		if err == nil || !strings.HasPrefix(err.Error(), "read config: line 2: "+key+": ") {
			t.Errorf("%s: %s: got %v", key, value, err)
		} else if text := err.Error(); value == "nonsense" && !strings.Contains(text, "unknown key") && !strings.Contains(text, value) {
			t.Errorf("%s: %s: the value is not in %v", key, value, err)
		}
	}
}

func TestReadConfigRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"file_pth: a":      "line 1: file_pth: unknown key",
		"FilePath: a":      "line 1: FilePath: unknown key",
		"on_error: a":      "line 1: on_error: unknown key",
		"margin: 1s\nx: 1": "line 2: x: unknown key",
		"quotas:\n  gpt-4o:\n    max_rpm: 500\n    max_rmp: 5": "line 4: quotas.gpt-4o.max_rmp: unknown key",
		"auto_persist:\n  dealy: 1s":                           "line 2: auto_persist.dealy: unknown key",
		"margin: 250":                                          `line 1: margin: "250" is not a duration with its unit, such as 250ms`,
		"max_queue: 1.5":                                       `line 1: max_queue: "1.5" is not an integer`,
		"backend: redis":                                       `unknown backend: "redis"`,
		"margin: -1s":                                          "Margin is -1s",
		"max_queue: -1":                                        "MaxQueue is -1",
		"durability: disk":                                     `Durability is "disk"`,
		"auto_persist: {max_wait: -2s}":                        "AutoPersist.MaxWait is -2s",
		"quotas: {m: {max_rpm: -5}}":                           `model "m": MaxRPM (max_rpm) is -5`,
		"quotas: {m: {adaptive_floor_rpm: 9, adaptive_ceiling_rpm: 8}}": `model "m": AdaptiveFloorRPM (adaptive_floor_rpm) is 9, want at most the ceiling, 8`,
		"quotas: {m: {adaptive_floor_in_flight: 1.5}}":                  `"1.5" is not an integer`,
		"quotas: {m: {day_zone: Mars/Olympus}}":                         `model "m": DayZone (day_zone)`,
		"unknown: maybe":                                                `line 1: unknown: `,
		"providers: [gemini, antropic]":                                 `unknown provider "antropic"`,
		"providers: [openai]\ntiers: {openai: gold}":                    `provider "openai" has no tier "gold"`,
		"tiers: {openai: 1}":                                            `Tiers names the provider "openai"`,
	} {
		cfg, err := ratelimit.ReadConfig(strings.NewReader(text))
		if err == nil || !strings.HasPrefix(err.Error(), "read config: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
		if !reflect.DeepEqual(cfg, ratelimit.Config{}) {
			t.Errorf("%q: the Config is not zero: %+v", text, cfg)
		}
	}
	for text, want := range map[string]error{
		"quotas: {m: {max_rpm: -5}}": ratelimit.ErrInvalidQuota,
		"providers: [antropic]":      ratelimit.ErrUnknownProvider,
	} {
		if _, err := ratelimit.ReadConfig(strings.NewReader(text)); !errors.Is(err, want) {
			t.Errorf("%q: %v is not %v", text, err, want)
		}
	}
}

// Whatever ReadConfig accepts, Marshal writes in a way that it reads again.
func FuzzReadConfig(f *testing.F) {
	for _, seed := range []string{
		"", "# nothing\n", "file_path: /var/lib/app/quota.db\nbackend: sqlite\nshared: true\n",
		"quotas:\n  gpt-4o: {max_rpm: 500, max_tpm: 30000, burst: 10s}\n  \"*\": {max_rpd: 1000, day_zone: UTC, adaptive_floor_rpm: 5, adaptive_ceiling_in_flight: 6}\n",
		"providers: [gemini, openai]\nmargin: 250ms\nmax_queue: 100\nmatch_versions: true\n",
		"auto_persist: {delay: 1s, max_wait: 10s}\nhold_ttl: 5m\nlease_ttl: 10s\n", "aliases: {fast: gpt-4o-mini, \"\\x00\": \"\\n a\"}\n",
		"durability: power\nfail_closed: true\nfresh_start: true\nlearn_quotas: true\nmax_models: 7\n",
		"file_path: !!binary /w==\n", "margin: -1s", "quotas: {m: {max_rpm: -5}}", "quotas:\n  m:\n", "a: &a [*a]", "<<: {}", "aliases: {\"<<\": \"~\", 1: 2}", "unknown: deny\nproviders: [openai]\ntiers: {openai: 1}\n",
		"file_path: |\n  a\n\n  b\n", "file_path: \"\\u2028\\uFEFF \\t\"",
		"prices:\n  m: {input: $2.50, cached_input: 0.25, cache_write: \"3\", output: 10}\n  \"*\": {}\nunpriced: free\n",
		"pools:\n  all: {models: [\"*\", m], quota: {max_rpm: 5, max_spend_per_day: $1, max_spend_per_month: 20, day_zone: UTC}}\n  none: {}\n",
		"classes:\n  people: {weight: 3, reserve_percent: 20, max_queue: 100, ahead: true}\n  \"\": {weight: 2}\n", "classes: {a: {reserve_percent: 60}, b: {reserve_percent: 60}}",
		"prices: {m: {input: -1}}", "prices: {m: {input: 1e3}}", "unpriced: no", "pools: {\"\": {}}", "pools: {p: {models: [!!binary /w==]}}", "classes: {!!binary /w==: {}}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cfg, err := ratelimit.ReadConfig(strings.NewReader(text))
		if err != nil || strings.Contains(fmt.Sprintf("%#v", cfg), `\n`) {
			return // the YAML library writes a text that begins with a line break as another
		}
		written, err := yaml.Marshal(cfg)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ratelimit.ReadConfig(bytes.NewReader(written))
		// An empty map is written as none, and means the same.
		if got, want := fmt.Sprintf("%#v", again), fmt.Sprintf("%#v", cfg); err != nil || withoutEmpty(got) != withoutEmpty(want) {
			t.Errorf("got %v, %s\nwant %s\nfrom\n%s", err, got, want, written)
		}
	})
}

// withoutEmpty makes the text of an empty map or list that of none.
func withoutEmpty(text string) string { return strings.ReplaceAll(text, "{}", "(nil)") }
