package yamlfile

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

// No beginning of a file of EncodeState is read, with whichever line ends.
func TestNoBeginningIsWhole(t *testing.T) {
	file, _ := encoded(t, everySection(time.Now()))
	for name, whole := range map[string]string{
		"as written":      file,
		"CRLF":            strings.ReplaceAll(file, "\n", "\r\n"),
		"CR":              strings.ReplaceAll(file, "\n", "\r"),
		"byte order mark": byteOrderMark + file,
		"indented":        " " + file,
		"a comment":       "# by hand\n\n" + file,
		"a comment, CRLF": "# by hand\r\n" + strings.ReplaceAll(file, "\n", "\r\n"),
		"a document mark": "---\n" + file,
	} {
		begin := strings.Index(whole, firstLine)
		if strings.HasPrefix(whole, byteOrderMark) {
			begin = -1 // no part of the mark is a file
		}
		if _, err := DecodeState(strings.NewReader(whole)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for n := begin + 1; n < len(whole); n++ {
			s, err := DecodeState(strings.NewReader(whole[:n]))
			if s != nil || n > len(byteOrderMark) && !errors.Is(err, errCut) || err == nil {
				t.Errorf("%s, cut after %d of %d bytes: %v", name, n, len(whole), err)
			}
		}
	}
}

// What follows the last line is white space, and of that no more than an editor would add.
func TestTailIsBounded(t *testing.T) {
	for spaces, want := range map[int]error{0: nil, 100: nil, maxAround: errCut} {
		_, err := DecodeState(strings.NewReader(firstLine + "\nstate: {}\n" + lastLine + "\n" + strings.Repeat("\n", spaces)))
		if !errors.Is(err, want) {
			t.Errorf("%d more lines: %v, want %v", spaces, err, want)
		}
	}
}

// Whatever an editor makes of the line ends, and a person of the content, a whole file is read.
func TestWholeFileIsRead(t *testing.T) {
	if !strings.HasPrefix(firstLine, "# ") || !strings.Contains(firstLine, lastLine) || !strings.HasPrefix(lastLine, "# ") {
		t.Fatalf("a file begins with %q and ends with %q", firstLine, lastLine)
	}
	whole, content := encoded(t, everySection(time.Now()))
	for name, text := range map[string]string{
		"as it is":              whole,
		"another line end":      whole + "\n",
		"white space":           strings.TrimSuffix(whole, "\n") + " \n \n\r\n",
		"CRLF":                  strings.ReplaceAll(whole, "\n", "\r\n"),
		"CR":                    strings.ReplaceAll(whole, "\n", "\r"),
		"byte order mark":       "\ufeff" + whole,
		"byte order mark, CRLF": "\ufeff" + strings.ReplaceAll(whole, "\n", "\r\n"),
		"a longer first line":   strings.Replace(whole, "\n", " Do not edit.\n", 1),
		"comments between":      firstLine + "\n# by hand\n" + strings.ReplaceAll(content, "\n", "\n# by hand\n") + lastLine + "\n",
		"without both":          content,
		"only the last line":    content + lastLine + "\n",
		"a line before":         "# by hand\n" + whole,
		"document marks":        "---\n" + content + "...\n",
		"other keys":            firstLine + "\n" + content + "note: 5\n" + lastLine + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			s, err := DecodeState(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if again, _ := encoded(t, s); again != whole {
				t.Errorf("read as\n%s\nwant\n%s", again, whole)
			}
		})
	}
}

// What is no beginning of a file of Persist is refused where it has the first line alone.
func TestFirstLineWithoutTheLast(t *testing.T) {
	whole, content := encoded(t, everySection(time.Now()))
	for name, text := range map[string]string{
		"the last line removed":      firstLine + "\n" + content,
		"the last line in the midst": firstLine + "\n" + lastLine + "\n" + content,
		"not a line of its own":      strings.TrimSuffix(firstLine+"\n"+content, "\n") + " " + lastLine + "\n",
		"the last line indented":     firstLine + "\n" + content + "    " + lastLine + "\n",
		"no line end":                whole[:len(whole)-1],
		"zeros at the end":           whole + strings.Repeat("\x00", 512),
		"two files, the second cut":  whole + firstLine + "\n",
		"the first line alone":       firstLine,
		"nothing between":            firstLine + lastLine + "\n",
		"cut, with CRLF":             strings.ReplaceAll(firstLine+"\n"+content, "\n", "\r\n"),
		"cut, with a byte order":     "\ufeff" + firstLine + "\n" + content,
		"a byte order mark alone":    "\ufeff",
	} {
		t.Run(name, func(t *testing.T) {
			s, err := DecodeState(strings.NewReader(text))
			if s != nil || err == nil || !strings.Contains(err.Error(), strconv.Quote(lastLine)) {
				t.Errorf("%v, %v: the error does not tell what is missing", s, err)
			}
		})
	}
}

// A file of a version before that is cut at any byte is refused, or read as the beginning of the
// whole.
func TestCutFilesOfVersionsBefore(t *testing.T) {
	at := time.Date(2026, 2, 20, 14, 32, 1, 123_456_789, time.UTC)
	want := state.NewSnapshot()
	want.Quotas = map[string]state.Quota{"m": {MaxRPM: 150, MaxTPM: 1_000_000, MaxRPD: 1_000}, "\xff": {}}
	want.Usage = map[string]*state.Usage{
		"m": {
			Requests: []time.Time{at, at.Add(1)}, Tokens: []state.Token{{Time: at, Count: 1_000}, {Time: at.Add(1), Count: 10}},
			DayStart: at, DayCount: 42,
		},
		"n": {Requests: []time.Time{at}, Tokens: []state.Token{{Time: at}}, DayStart: at, DayCount: 1},
	}
	_, whole := encoded(t, want)
	loaded := 0
	for n := range len(whole) + 1 {
		cut, err := DecodeState(strings.NewReader(whole[:n]))
		if err != nil {
			continue
		}
		loaded++
		for model, got := range cut.Quotas {
			want, ok := want.Quotas[model]
			if !ok || !begins(want.MaxRPM, got.MaxRPM) || !begins(want.MaxTPM, got.MaxTPM) || !begins(want.MaxRPD, got.MaxRPD) {
				t.Errorf("cut after %d bytes, the quota of %q is %v", n, model, got)
			}
		}
		for model, got := range cut.Usage {
			want := want.Usage[model]
			if want == nil || len(got.Requests) > len(want.Requests) || len(got.Tokens) > len(want.Tokens) ||
				!begins(want.DayCount, got.DayCount) || !got.DayStart.IsZero() && !got.DayStart.Equal(want.DayStart) {
				t.Fatalf("cut after %d bytes, the state is\n%s", n, usageText(cut))
			}
			for i, at := range got.Requests {
				if !at.Equal(want.Requests[i]) {
					t.Errorf("cut after %d bytes, request %d of %q is %v", n, i, model, at)
				}
			}
			for i, e := range got.Tokens {
				if want := want.Tokens[i]; !e.Time.Equal(want.Time) || !begins(want.Count, e.Count) {
					t.Errorf("cut after %d bytes, token entry %d of %q is %v", n, i, model, e)
				}
			}
		}
	}
	if loaded == 0 {
		t.Error("no file of a version before is read")
	}
}

// begins reports whether a number may be what is left of another one.
func begins(whole, cut int) bool {
	return cut == 0 || strings.HasPrefix(strconv.Itoa(whole), strconv.Itoa(cut))
}

// everySection is a snapshot with something in every section.
func everySection(now time.Time) *state.Snapshot {
	s := everyField(now)
	pool := state.PoolName("p")
	s.Pools = map[string][]string{pool: {"full", "*"}}
	s.Quotas[pool] = state.Quota{MaxTPD: 1_000_000}
	s.Usage[pool] = &state.Usage{DayStart: now, DayCount: 2}
	s.Quotas["\xff"] = state.Quota{MaxSpendPerDay: money.USD(9), MaxSpendPerTenMinutes: money.USD(8), MaxTokensPerMonth: 7}
	s.Said = map[string]state.Said{"full": state.SaidBy(state.Account, s.Quotas["full"])}
	day := state.SpendPeriod{Spent: money.USD(1), Begin: now.UnixNano(), End: now.Add(time.Hour).UnixNano()}
	s.Spend = map[string]state.Spend{"full": {Day: day, Month: day}, "windows": {
		Tokens: state.Period[int64]{Begin: 1, End: 2, Spent: 3}, Recent: state.PaymentsOf([]state.Payment{{At: 4, Spent: 5}, {At: 6, Spent: 7}}),
	}}
	return s
}

// encoded returns the file of a snapshot, and what is between its first line and its last one.
func encoded(t *testing.T, s *state.Snapshot) (whole, content string) {
	t.Helper()
	var file bytes.Buffer
	if err := EncodeState(&file, s, time.Now()); err != nil {
		t.Fatal(err)
	}
	whole = file.String()
	return whole, strings.TrimSuffix(strings.TrimPrefix(whole, firstLine+"\n"), lastLine+"\n")
}
