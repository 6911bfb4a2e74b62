package clock

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
)

// formatDuration returns a duration as text, such as "1m30s"; the empty text for zero.
func formatDuration(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// parseDuration returns the duration that formatDuration wrote. The error names the field and the
// text. A number without a unit is an error, because nothing says what it counts; "0" and the empty
// text are zero.
func parseDuration(field, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf(`%s: %q is not a duration with its unit, such as "10s"`, field, errtext.Clip(text))
	}
	return d, nil
}

// EncodeStruct returns a struct as a JSON object in which its durations are texts. It does not call
// MarshalJSON of the struct itself, whose method it is for.
func EncodeStruct(of any) ([]byte, error) {
	is := reflect.ValueOf(of)
	shown := reflect.New(withTexts(is.Type())).Elem()
	showIn(shown, is)
	return json.Marshal(shown.Interface())
}

// DecodeStruct decodes what EncodeStruct has written, an object of the kind what, into the struct
// to which into points. With an error, that stays as it was.
func DecodeStruct(data []byte, what string, into any) error {
	to := reflect.ValueOf(into).Elem()
	shown, is := reflect.New(withTexts(to.Type())), reflect.New(to.Type()).Elem()
	showIn(shown.Elem(), to)
	err := json.Unmarshal(data, shown.Interface())
	for i := 0; i < is.NumField() && err == nil; i++ {
		field := is.Type().Field(i)
		from := shown.Elem().FieldByName(field.Name)
		if field.Type != durationType {
			is.Field(i).Set(from)
			continue
		}
		var d time.Duration
		key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		d, err = parseDuration(key, from.String())
		is.Field(i).SetInt(int64(d))
	}
	if err != nil {
		return fmt.Errorf("decode %s: %w", what, err)
	}
	to.Set(is)
	return nil
}

var durationType = reflect.TypeFor[time.Duration]()

// texts has the types that withTexts has made, by those of which it made them.
var texts sync.Map

// withTexts returns a struct type without methods, in which durations are texts, behind all other
// fields.
func withTexts(of reflect.Type) reflect.Type {
	if made, ok := texts.Load(of); ok {
		return made.(reflect.Type)
	}
	var fields, durations []reflect.StructField
	for _, field := range reflect.VisibleFields(of) {
		if field.Type == durationType {
			field.Type = reflect.TypeFor[string]()
			durations = append(durations, field)
		} else {
			fields = append(fields, field)
		}
	}
	made, _ := texts.LoadOrStore(of, reflect.StructOf(append(fields, durations...)))
	return made.(reflect.Type)
}

// showIn copies a struct into one with texts.
func showIn(shown, is reflect.Value) {
	for i := range is.NumField() {
		to := shown.FieldByName(is.Type().Field(i).Name)
		if is.Field(i).Type() == durationType {
			to.SetString(formatDuration(time.Duration(is.Field(i).Int())))
		} else {
			to.Set(is.Field(i))
		}
	}
}
