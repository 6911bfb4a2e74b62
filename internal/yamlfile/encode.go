package yamlfile

import (
	"bufio"
	"encoding/base64"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// EncodeState writes a snapshot between firstLine and lastLine, with the keys and the indentation
// that yaml.Marshal would give it. It writes the text itself because marshalling 100,000 entries
// takes half a second and a gigabyte. Times after now are written as now.
func EncodeState(to io.Writer, s *state.Snapshot, now time.Time) error {
	w := &encoder{out: bufio.NewWriterSize(to, 1<<18), now: now}
	models, pools := split(s)
	w.buf = append(w.buf, firstLine...)
	w.endLine()
	w.section("quotas", len(models.Quotas))
	for _, model := range slices.Sorted(maps.Keys(models.Quotas)) {
		q := models.Quotas[model]
		w.quota(model, &q)
	}
	w.section("state", len(models.Usage))
	w.usages(models.Usage)
	w.rest(models, "")
	if pools != nil {
		w.pools(pools)
	}
	w.buf = append(w.buf, lastLine...)
	w.endLine()
	return w.out.Flush()
}

// rest writes the sections of models or pools that are left out where they are empty.
func (w *encoder) rest(s *state.Snapshot, of string) {
	w.cooldowns(of, s.Cooldowns)
	w.origins(of, s)
	w.answers(s.Answers)
	w.found(of, s.Found)
	w.spend(of, s.Spend)
}

func (w *encoder) usages(usage map[string]*state.Usage) {
	for _, model := range slices.Sorted(maps.Keys(usage)) {
		w.usage(model, usage[model])
	}
}

// quota writes a quota. The keys that the original does not know are left out where they
// are zero.
func (w *encoder) quota(model string, q *state.Quota) {
	w.model(model)
	w.quotaFields(q)
}

func (w *encoder) quotaFields(q *state.Quota) {
	for of := range state.Limits {
		key, limit := state.Limits[of].Key, *q.Limit(state.Dimension(of))
		if state.Dimension(of) <= state.RPD {
			w.field(key, limit)
		} else {
			w.optional(key, limit)
		}
	}
	if q.DayZone != "" {
		w.text(state.ZoneKey, quotedName(q.DayZone))
	}
	if q.Burst != 0 {
		w.text(state.BurstKey, q.Burst.String())
	}
	for _, f := range state.Adaptive {
		w.optional(f.Key, *f.Of(q))
	}
	for _, b := range state.Budgets {
		if limit := b.Of(*q); limit != 0 {
			w.text(b.Key, b.Text(limit))
		}
	}
}

// origins writes the section of that name: who said the quotas, where the program alone did not. A
// file without one is as it was before there were origins.
func (w *encoder) origins(of string, s *state.Snapshot) {
	begun := false
	for _, model := range slices.Sorted(maps.Keys(s.Quotas)) {
		said := s.Said[model]
		if said.IsEmpty() {
			continue
		}
		if !begun {
			w.section(of+"origins", 1)
			begun = true
		}
		w.model(model)
		for o, key := range state.OriginKeys {
			if q, ok := said.Get(state.Origin(o)); ok {
				w.list(key, 1)
				w.deeper = "    "
				w.quotaFields(&q)
				w.deeper = ""
			}
		}
	}
}

func (w *encoder) usage(model string, u *state.Usage) {
	w.model(model)
	w.list("requests", len(u.Requests))
	for _, t := range u.Requests {
		w.buf = append(w.buf, "            - "...)
		w.time(t)
	}
	w.list("tokens", len(u.Tokens))
	for _, t := range u.Tokens {
		w.token(t)
	}
	w.buf = append(w.buf, "        day_start: "...)
	w.time(u.DayStart)
	w.field("day_count", max(u.DayCount, 0))
	w.optional("day_tokens", max(u.DayTokens, 0))
}

func (w *encoder) token(e state.Token) {
	w.buf = append(w.buf, "            - time: "...)
	w.time(e.Time)
	w.buf = append(w.buf, "              count: "...)
	w.buf = strconv.AppendInt(w.buf, int64(max(e.Count, 0)), 10)
	w.endLine()
	if input := min(e.Input, e.Count); input > 0 {
		w.buf = append(w.buf, "              input: "...)
		w.buf = strconv.AppendInt(w.buf, int64(input), 10)
		w.endLine()
	}
}

// cooldowns writes the section of that name. A file without one is as it was before there were
// cooldowns, and one with only those of callers is as it was before there were causes. Versions
// without causes pass over the key.
func (w *encoder) cooldowns(of string, cooldowns map[string]state.Cooldown) {
	if len(cooldowns) == 0 {
		return
	}
	w.section(of+"cooldowns", len(cooldowns))
	for _, model := range slices.Sorted(maps.Keys(cooldowns)) {
		w.model(model)
		w.buf = append(w.buf, "        until: "...)
		w.instant(inFourDigits(cooldowns[model].Until))
		if cause := state.KeptCause(cooldowns[model].Cause); cause != state.CauseCaller {
			w.text("cause", quotedName(cause))
		}
	}
}

// answers writes the section of that name, if there is anything to write.
func (w *encoder) answers(answers map[string]state.Answers) {
	if len(answers) == 0 {
		return
	}
	w.section("answers", len(answers))
	for _, model := range slices.Sorted(maps.Keys(answers)) {
		a := answers[model]
		w.model(model)
		for _, f := range state.AnswersFields {
			w.field(f.Key, *f.Of(&a))
		}
		if len(a.Errors) > 0 {
			w.text(state.ErrorsKey, a.Errors.String())
		}
	}
}

// inFourDigits returns t, or the last instant that RFC 3339 can express.
func inFourDigits(t time.Time) time.Time {
	if t.UTC().Year() > 9999 {
		return time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
	}
	return t
}

// encoder writes line by line. A failed write shows at the last Flush.
type encoder struct {
	out    *bufio.Writer
	buf    []byte // the line being made
	deeper string // how much more fields are indented
	now    time.Time
	second int64  // whose text prefix holds
	prefix []byte // "2006-01-02T15:04:05"
}

func (w *encoder) endLine() {
	w.buf = append(w.buf, '\n')
	w.out.Write(w.buf)
	w.buf = w.buf[:0]
}

func (w *encoder) section(key string, entries int) {
	w.buf = append(append(w.buf, key...), ':')
	if entries == 0 {
		w.buf = append(w.buf, " {}"...)
	}
	w.endLine()
}

func (w *encoder) model(name string) {
	key := quotedName(name)
	w.buf = append(w.buf, "    "...)
	if len(key) > maxShortKey {
		w.buf = append(append(w.buf, longKey...), key...)
		w.endLine()
		key = "    "
	}
	w.buf = append(append(w.buf, key...), ':')
	w.endLine()
}

func (w *encoder) list(key string, entries int) {
	w.buf = append(append(append(w.buf, "        "...), key...), ':')
	if entries == 0 {
		w.buf = append(w.buf, " []"...)
	}
	w.endLine()
}

func (w *encoder) field(key string, value int) { w.number(key, int64(value)) }

func (w *encoder) number(key string, value int64) {
	w.buf = append(append(append(append(w.buf, "        "...), w.deeper...), key...), ": "...)
	w.buf = strconv.AppendInt(w.buf, value, 10)
	w.endLine()
}

// text writes a field whose value is written as it is.
func (w *encoder) text(key, value string) {
	w.buf = append(append(append(append(w.buf, "        "...), w.deeper...), key...), ": "...)
	w.buf = append(w.buf, value...)
	w.endLine()
}

// optional writes a field that is left out when it is zero.
func (w *encoder) optional(key string, value int) {
	if value != 0 {
		w.field(key, value)
	}
}

// time writes when something happened. A time from the future counts as of now.
func (w *encoder) time(t time.Time) {
	if t.After(w.now) {
		t = w.now
	}
	w.instant(t)
}

// instant writes t like time.RFC3339Nano does in UTC. Neighbours are mostly of
// the same second, so the text of the second is kept. A time that the format
// cannot express is long over, and becomes the zero time.
func (w *encoder) instant(t time.Time) {
	if second := t.Unix(); second != w.second || w.prefix == nil {
		if year := t.UTC().Year(); year < 0 || year > 9999 {
			t = time.Time{}
		}
		w.second = t.Unix()
		w.prefix = t.UTC().AppendFormat(w.prefix[:0], "2006-01-02T15:04:05")
	}
	w.buf = append(w.buf, w.prefix...)
	if nanos := t.Nanosecond(); nanos != 0 {
		start := len(w.buf)
		w.buf = strconv.AppendInt(w.buf, 1_000_000_000+int64(nanos), 10)
		w.buf[start] = '.'
		for w.buf[len(w.buf)-1] == '0' {
			w.buf = w.buf[:len(w.buf)-1]
		}
	}
	w.buf = append(w.buf, 'Z')
	w.endLine()
}

const (
	binaryTag = "!!binary "
	longKey   = "? "
	// maxShortKey is the longest text that is written as "key:". YAML readers
	// look for the colon no further than 1,024 characters.
	maxShortKey = 1000
)

// quotedName writes the name of a model or a zone: plain where every YAML reader
// sees a string in it, quoted elsewhere, and in base64 where it is no UTF-8. It
// quotes in ASCII, because what else is printable changes with each Unicode.
func quotedName(name string) string {
	switch {
	case !utf8.ValidString(name):
		return binaryTag + strconv.Quote(base64.StdEncoding.EncodeToString([]byte(name)))
	case plainText(name):
		return name
	}
	return strconv.QuoteToASCII(name)
}

// plainText reports whether every YAML reader sees a string in a name that is
// written as it is.
func plainText(name string) bool {
	return plainName(name) && name[0] > '9' && !reservedWords[strings.ToLower(name)]
}

// reservedWords are the plain words that some YAML version reads as something else
// than a string.
var reservedWords = map[string]bool{
	"null": true, "true": true, "false": true,
	"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true,
}

// plainName reports whether a name is made of characters that mean nothing to
// YAML, wherever they stand in it.
func plainName(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_':
		case i > 0 && (c == '.' || c == '/' || c == '-' || c == '@' || c == '+'):
		case i > 0 && i < len(name)-1 && c == ':':
		default:
			return false
		}
	}
	return name != ""
}
