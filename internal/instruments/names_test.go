package instruments_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/instruments"
)

func TestName(t *testing.T) {
	long := strings.Repeat("x", 300)
	for name, want := range map[string]string{
		"": "", "gpt-4o": "gpt-4o", "a\"b\n\x00": "a\"b\n\x00", "模型": "模型", // nothing is wrong with these
		"model\xff": `model\xff`, "model\xfe": `model\xfe`, "\"\xff\"": `\"\xff\"`,
		long[:256]:                  long[:256],
		long[:257]:                  long[:247] + "~",
		long[:246] + "ä" + long:     long[:246] + "~", // no rune is cut
		long[:245] + "ä" + long:     long[:245] + "ä~",
		strings.Repeat("\xff", 64):  strings.Repeat(`\xff`, 64), // 256 bytes
		strings.Repeat("\xff", 65):  strings.Repeat(`\xff`, 61) + `\xf~`,
		strings.Repeat("模", 86):     strings.Repeat("模", 82) + "~",
		long[:255] + "ä" + "\xff":   long[:247] + "~",
		strings.Repeat("x", 1<<20):  long[:247] + "~",
		strings.Repeat("\xff", 1e5): strings.Repeat(`\xff`, 61) + `\xf~`,
	} {
		got := instruments.Name(name)
		stem, isCut := strings.CutSuffix(want, "~")
		if isCut {
			if ok := regexp.MustCompile(`^~[0-9a-f]{8}$`).MatchString(strings.TrimPrefix(got, stem)); !ok || !strings.HasPrefix(got, stem) {
				t.Errorf("%.40q of %d bytes is %q, want %q and a hash", name, len(name), got, want)
			}
		} else if got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
		if len(got) > 256 || !utf8.ValidString(got) || instruments.Name(got) != got {
			t.Errorf("%q is no name that stays as it is", got)
		}
	}
}

// Names that differ stay apart, wherever they differ: in what is escaped, and in what is cut off.
func TestNamesStayApart(t *testing.T) {
	long := strings.Repeat("x", 1000)
	seen := make(map[string]string)
	tell := func(name string) {
		got := instruments.Name(name)
		if other, twice := seen[got]; twice && other != name {
			t.Errorf("%.20q and %.20q are both %.20q", other, name, got)
		}
		seen[got] = name
	}
	for b := range 256 {
		tell("a" + string([]byte{byte(b)}))
		tell(long + string([]byte{byte(b)}))
		tell(string([]byte{byte(b)}) + long)
		tell(long[:500] + string([]byte{byte(b)}) + long[:500])
	}
	for n := range 1000 {
		tell(fmt.Sprint(long, "-", n))
		tell(long + long[:n])
	}
}

// What is kept of a name is short, whatever it is, and an ordinary one costs nothing.
func TestKeyOf(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	if k := instruments.KeyOf(long, ratelimit.Provider(long)); len(k.Model) != 256 || len(k.Provider) != 256 {
		t.Errorf("%d and %d bytes are kept", len(k.Model), len(k.Provider))
	}
	model := "gemini-2.5-flash"
	if n := testing.AllocsPerRun(100, func() { instruments.KeyOf(model, "gemini") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	d := ratelimit.Decision{Code: ratelimit.DecisionRPMLimit, Pool: long}
	for _, e := range []ratelimit.Event{
		{Kind: ratelimit.EventRefused, Class: long, Decision: &d}, {Kind: ratelimit.EventSettled, Class: long, Cost: 1},
		{Kind: ratelimit.EventPassed, Class: long, Wait: 1}, {Kind: ratelimit.EventSaved, System: long},
	} {
		var m instruments.Measurements
		if instruments.Read(&e, &m); len(m.Class)+len(m.Pool)+len(m.System) > 3*256 {
			t.Errorf("%s: %d, %d and %d bytes are kept", e.Kind, len(m.Class), len(m.Pool), len(m.System))
		}
	}
}

func BenchmarkName(b *testing.B) {
	for _, name := range []string{"gemini-2.5-flash", "model\xff", strings.Repeat("x", 1<<20)} {
		b.Run(fmt.Sprint(len(name)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				instruments.Name(name)
			}
		})
	}
}
