/* A module that listens in, as other people's modules do: to a keyspace event it answers at once, in the middle of whatever the server
 * and lockstock are doing, with a command of its own. It also runs commands for clients, which is how modules call each other.
 *
 * LISTENER.ON tail class nth command [arg ...]   at the nth event (0: at each) of the class MODULE, NEW or SERVER (all others) about
 *                                                a key whose name ends in `tail`, run the command; an argument `@` is that key
 * LISTENER.SEEN tail                             every such event so far, with what the command answered where it was run
 * LISTENER.FORGET                                all of that
 * LISTENER.TWIN key twin                         restore what a file would hold of the key under another name, and delete that
 * LISTENER.CALL command [arg ...]                run the command, and pass its reply on
 * LISTENER.BIDE command [arg ...]                the same with a command that may block; an error if it does
 * LISTENER.LATER command [arg ...]               run the command in a timer, where there is no client; SEEN "" has its reply
 * LISTENER.THREAD command [arg ...]              the same in a thread of its own, which takes the server's lock; the client waits for the reply
 * LISTENER.LINGER tail ms                        let so much time pass before any command with an argument that ends in `tail`
 */

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* What the module API is made of, as far as it is used here. */
typedef struct Ctx Ctx;
typedef struct String String;
typedef struct CallReply CallReply;
typedef int (*Command)(Ctx *, String **, int);
typedef int (*Heard)(Ctx *, int, const char *, String *);
typedef void (*Timer)(Ctx *, void *);
typedef struct Blocked Blocked;
typedef struct Filtered Filtered;
typedef void (*Filter)(Filtered *);

enum { OK = 0, ERR = 1, API_VERSION = 1 };
/* The reply of a command that has not come to an end. */
enum { PROMISE = 12 };
/* Classes of events: those of modules, a key that is being made, and all others but `keymiss`, of which every look for a key that is not
 * there makes one. */
enum { MODULE = 1 << 13, NEW = 1 << 14, SERVER = (1 << 13) - (1 << 2) - (1 << 11) };

static void *(*Alloc)(size_t);
static char *(*Strdup)(const char *);
static void (*Free)(void *);
static void (*SetModuleAttribs)(Ctx *, const char *, int, int);
static int (*CreateCommand)(Ctx *, const char *, Command, const char *, int, int, int);
static int (*SubscribeToKeyspaceEvents)(Ctx *, int, Heard);
static const char *(*StringPtrLen)(const String *, size_t *);
static int (*StringToLongLong)(const String *, long long *);
static String *(*CreateStringFromString)(Ctx *, const String *);
static void (*FreeString)(Ctx *, String *);
static CallReply *(*Call)(Ctx *, const char *, const char *, ...);
static int (*CallReplyType)(CallReply *);
static const char *(*CallReplyProto)(CallReply *, size_t *);
static const char *(*CallReplyStringPtr)(CallReply *, size_t *);
static void (*FreeCallReply)(CallReply *);
static int (*ReplyWithCallReply)(Ctx *, CallReply *);
static int (*ReplyWithArray)(Ctx *, long);
static int (*ReplyWithStringBuffer)(Ctx *, const char *, size_t);
static int (*ReplyWithSimpleString)(Ctx *, const char *);
static int (*ReplyWithError)(Ctx *, const char *);
static int (*WrongArity)(Ctx *);
static Blocked *(*BlockClient)(Ctx *, Command, Command, void (*)(Ctx *, void *), long long);
static int (*UnblockClient)(Blocked *, void *);
static Ctx *(*GetThreadSafeContext)(Blocked *);
static void (*FreeThreadSafeContext)(Ctx *);
static void (*ThreadSafeContextLock)(Ctx *);
static void (*ThreadSafeContextUnlock)(Ctx *);
static unsigned long long (*CreateTimer)(Ctx *, long long, Timer, void *);
static void *(*RegisterCommandFilter)(Ctx *, Filter, int);
static const String *(*CommandFilterArgGet)(Filtered *, int);
static int (*CommandFilterArgsCount)(Filtered *);

static int bind_api(Ctx *ctx) {
    /* The first word of the context that a module is loaded with is the function that finds the others. */
    int (*find)(const char *, void *) = *(int (**)(const char *, void *))ctx;
    int missing = 0;
#define FIND(name) missing |= find("RedisModule_" #name, (void *)&name)
    FIND(Alloc);
    FIND(Strdup);
    FIND(Free);
    FIND(SetModuleAttribs);
    FIND(CreateCommand);
    FIND(SubscribeToKeyspaceEvents);
    FIND(StringPtrLen);
    FIND(StringToLongLong);
    FIND(CreateStringFromString);
    FIND(FreeString);
    FIND(Call);
    FIND(CallReplyType);
    FIND(CallReplyProto);
    FIND(CallReplyStringPtr);
    FIND(FreeCallReply);
    FIND(ReplyWithCallReply);
    FIND(ReplyWithArray);
    FIND(ReplyWithStringBuffer);
    FIND(ReplyWithSimpleString);
    FIND(ReplyWithError);
    FIND(WrongArity);
    FIND(BlockClient);
    FIND(UnblockClient);
    FIND(GetThreadSafeContext);
    FIND(FreeThreadSafeContext);
    FIND(ThreadSafeContextLock);
    FIND(ThreadSafeContextUnlock);
    FIND(CreateTimer);
    FIND(RegisterCommandFilter);
    FIND(CommandFilterArgGet);
    FIND(CommandFilterArgsCount);
    return missing ? ERR : OK;
}

/* A command to be run. */
typedef struct Order {
    String **words;
    int count;
} Order;

typedef struct Rule {
    char *tail;
    int class;
    long long nth, heard;
    Order order;
    struct Rule *next;
} Rule;

typedef struct Line {
    char *tail, *text;
    struct Line *next;
} Line;

static Rule *rules;
static Line *lines, **last_line = &lines;

static void note(const char *tail, char *text) {
    Line *line = Alloc(sizeof *line);
    *line = (Line){Strdup(tail), text, NULL};
    *last_line = line;
    last_line = &line->next;
}

static Order order_of(String **words, int count) {
    Order order = {Alloc(count * sizeof *words), count};
    for (int i = 0; i < count; i++) order.words[i] = CreateStringFromString(NULL, words[i]);
    return order;
}

static void forget(Order order) {
    for (int i = 0; i < order.count; i++) FreeString(NULL, order.words[i]);
    Free(order.words);
}

/* Runs the command in the server, replicated; NULL if the server would not. */
static CallReply *run(Ctx *ctx, Order order) {
    return Call(ctx, StringPtrLen(order.words[0], NULL), "!Ev", order.words + 1, (size_t)order.count - 1);
}

/* The reply as it would cross the wire, on one line; frees it. */
static char *text_of(CallReply *reply) {
    size_t length = 0;
    const char *proto = reply ? CallReplyProto(reply, &length) : "(refused)";
    if (!reply) length = strlen(proto);
    char *text = Alloc(length + 1);
    for (size_t i = 0; i < length; i++) text[i] = proto[i] == '\r' || proto[i] == '\n' ? ' ' : proto[i];
    text[length] = 0;
    if (reply) FreeCallReply(reply);
    return text;
}

static int ends_in(const char *key, size_t length, const char *tail) {
    size_t behind = strlen(tail);
    return length >= behind && memcmp(key + length - behind, tail, behind) == 0;
}

static int heard(Ctx *ctx, int class, const char *event, String *key) {
    size_t length;
    const char *name = StringPtrLen(key, &length);
    for (Rule *rule = rules; rule; rule = rule->next) {
        if (!ends_in(name, length, rule->tail) || !(class & rule->class)) continue;
        rule->heard++;
        char *answer = NULL;
        if (rule->nth == 0 || rule->nth == rule->heard) {
            Order order = order_of(rule->order.words, rule->order.count);
            for (int i = 1; i < order.count; i++) {
                if (strcmp(StringPtrLen(order.words[i], NULL), "@") != 0) continue;
                FreeString(NULL, order.words[i]);
                order.words[i] = CreateStringFromString(NULL, key);
            }
            answer = text_of(run(ctx, order));
            forget(order);
        }
        size_t room = strlen(event) + length + (answer ? strlen(answer) : 0) + 8;
        char *text = Alloc(room);
        snprintf(text, room, "%s %.*s%s%s", event, (int)length, name, answer ? " -> " : "", answer ? answer : "");
        Free(answer);
        note(rule->tail, text);
    }
    return OK;
}

static int on(Ctx *ctx, String **words, int count) {
    if (count < 5) return WrongArity(ctx);
    const char *name = StringPtrLen(words[2], NULL);
    int class = strcmp(name, "MODULE") == 0 ? MODULE : strcmp(name, "NEW") == 0 ? NEW : SERVER;
    long long nth;
    if (StringToLongLong(words[3], &nth) != OK) return ReplyWithError(ctx, "ERR which event");
    Rule *rule = Alloc(sizeof *rule);
    *rule = (Rule){Strdup(StringPtrLen(words[1], NULL)), class, nth, 0, order_of(words + 4, count - 4), rules};
    rules = rule;
    return ReplyWithSimpleString(ctx, "OK");
}

static int seen(Ctx *ctx, String **words, int count) {
    if (count != 2) return WrongArity(ctx);
    const char *tail = StringPtrLen(words[1], NULL);
    long found = 0;
    for (Line *line = lines; line; line = line->next) found += strcmp(line->tail, tail) == 0;
    ReplyWithArray(ctx, found);
    for (Line *line = lines; line; line = line->next) {
        if (strcmp(line->tail, tail) == 0) ReplyWithStringBuffer(ctx, line->text, strlen(line->text));
    }
    return OK;
}

static int forget_all(Ctx *ctx, String **words, int count) {
    (void)words, (void)count;
    while (rules) {
        Rule *rule = rules;
        rules = rule->next;
        forget(rule->order);
        Free(rule->tail);
        Free(rule);
    }
    while (lines) {
        Line *line = lines;
        lines = line->next;
        Free(line->tail);
        Free(line->text);
        Free(line);
    }
    last_line = &lines;
    return ReplyWithSimpleString(ctx, "OK");
}

static int call(Ctx *ctx, String **words, int count) {
    if (count < 2) return WrongArity(ctx);
    CallReply *reply = run(ctx, (Order){words + 1, count - 1});
    if (!reply) return ReplyWithError(ctx, "ERR the server would not run it");
    ReplyWithCallReply(ctx, reply);
    FreeCallReply(reply);
    return OK;
}

static int bide(Ctx *ctx, String **words, int count) {
    if (count < 2) return WrongArity(ctx);
    CallReply *reply = Call(ctx, StringPtrLen(words[1], NULL), "!EKv", words + 2, (size_t)count - 2);
    /* Redis 7.0 knows of no such commands. */
    if (!reply) return ReplyWithError(ctx, "ERR the server would not run it");
    if (CallReplyType(reply) == PROMISE) return ReplyWithError(ctx, "ERR it is blocked");
    ReplyWithCallReply(ctx, reply);
    FreeCallReply(reply);
    return OK;
}

static int twin(Ctx *ctx, String **words, int count) {
    if (count != 3) return WrongArity(ctx);
    CallReply *dump = Call(ctx, "DUMP", "s", words[1]);
    size_t length = 0;
    const char *payload = dump ? CallReplyStringPtr(dump, &length) : NULL;
    if (payload) {
        CallReply *reply = Call(ctx, "RESTORE", "!Escbc", words[2], "0", payload, length, "REPLACE");
        if (reply) {
            ReplyWithCallReply(ctx, reply);
            FreeCallReply(reply);
            reply = Call(ctx, "DEL", "!s", words[2]);
            if (reply) FreeCallReply(reply);
        } else {
            ReplyWithError(ctx, "ERR the server would not run it");
        }
    } else {
        ReplyWithSimpleString(ctx, "NOTHING");
    }
    if (dump) FreeCallReply(dump);
    return OK;
}

static void at_last(Ctx *ctx, void *data) {
    Order *order = data;
    note("", text_of(run(ctx, *order)));
    forget(*order);
    Free(order);
}

static int later(Ctx *ctx, String **words, int count) {
    if (count < 2) return WrongArity(ctx);
    Order *order = Alloc(sizeof *order);
    *order = order_of(words + 1, count - 1);
    CreateTimer(ctx, 0, at_last, order);
    return ReplyWithSimpleString(ctx, "OK");
}

/* What a thread is to do, and for which client. */
typedef struct Errand {
    Blocked *client;
    Order order;
} Errand;

static void *in_thread(void *data) {
    Errand *errand = data;
    Ctx *ctx = GetThreadSafeContext(errand->client);
    ThreadSafeContextLock(ctx);
    CallReply *reply = run(ctx, errand->order);
    if (reply) {
        ReplyWithCallReply(ctx, reply);
        FreeCallReply(reply);
    } else {
        ReplyWithError(ctx, "ERR the server would not run it");
    }
    forget(errand->order);
    ThreadSafeContextUnlock(ctx);
    FreeThreadSafeContext(ctx);
    UnblockClient(errand->client, NULL);
    Free(errand);
    return NULL;
}

static int thread(Ctx *ctx, String **words, int count) {
    if (count < 2) return WrongArity(ctx);
    Errand *errand = Alloc(sizeof *errand);
    *errand = (Errand){BlockClient(ctx, NULL, NULL, NULL, 0), order_of(words + 1, count - 1)};
    pthread_t started;
    /* Without a thread the client waits for ever, and the test says so. */
    if (pthread_create(&started, NULL, in_thread, errand) == 0) pthread_detach(started);
    return OK;
}

static char *lingering_at;
static long long lingering_ms;

static void before(Filtered *call) {
    size_t length;
    const char *word;
    for (int i = 1; i < CommandFilterArgsCount(call); i++) {
        word = StringPtrLen(CommandFilterArgGet(call, i), &length);
        if (!ends_in(word, length, lingering_at)) continue;
        struct timespec time = {lingering_ms / 1000, lingering_ms % 1000 * 1000000};
        nanosleep(&time, NULL);
        return;
    }
}

static int linger(Ctx *ctx, String **words, int count) {
    if (count != 3) return WrongArity(ctx);
    if (StringToLongLong(words[2], &lingering_ms) != OK) return ReplyWithError(ctx, "ERR how long");
    /* Nobody else need pay for it. */
    if (!lingering_at) RegisterCommandFilter(ctx, before, 0);
    Free(lingering_at);
    lingering_at = Strdup(StringPtrLen(words[1], NULL));
    return ReplyWithSimpleString(ctx, "OK");
}

int RedisModule_OnLoad(Ctx *ctx, String **words, int count) {
    (void)words, (void)count;
    if (bind_api(ctx) != OK) return ERR;
    SetModuleAttribs(ctx, "listener", 1, API_VERSION);
    static const struct { const char *name; Command run; } commands[] = {
        {"listener.on", on}, {"listener.seen", seen}, {"listener.forget", forget_all},
        {"listener.twin", twin}, {"listener.call", call}, {"listener.later", later},
        {"listener.bide", bide}, {"listener.linger", linger}, {"listener.thread", thread},
    };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (CreateCommand(ctx, commands[i].name, commands[i].run, "write", 0, 0, 0) != OK) return ERR;
    }
    return SubscribeToKeyspaceEvents(ctx, MODULE | NEW | SERVER, heard);
}
