/* A module that decides nothing: each command reads the words of one of lockstock's, opens the key, sends an effect and replies as that
 * one does. What it costs is what the server takes from any module for that.
 *
 * FLOOR.ACQUIRE key TOKEN token PX ms   a new value, an effect of six words, three fields
 * FLOOR.REFUSE key TOKEN token PX ms    null
 * FLOOR.RELEASE key token               no value any more, its own words as the effect, a number
 * FLOOR.ORDER key id                    its own words as the effect, five fields
 * FLOOR.ANSWER key id                   five fields
 * FLOOR.GUARD key token command [arg …] the command run for the client, and its reply
 */

#include <stddef.h>

typedef struct Ctx Ctx;
typedef struct String String;
typedef struct Key Key;
typedef struct Type Type;
typedef struct CallReply CallReply;
typedef int (*Command)(Ctx *, String **, int);

enum { OK = 0, ERR = 1, API_VERSION = 1, READ = 1, WRITE = 2 };

/* The first version of this structure; only values have to be freed. */
typedef struct {
    unsigned long long version;
    void *(*load)(void *, int);
    void (*save)(void *, void *);
    void (*rewrite)(void *, String *, void *);
    size_t (*usage)(const void *);
    void (*digest)(void *, void *);
    void (*free)(void *);
} Methods;

static void (*SetModuleAttribs)(Ctx *, const char *, int, int);
static int (*CreateCommand)(Ctx *, const char *, Command, const char *, int, int, int);
static Type *(*CreateDataType)(Ctx *, const char *, int, Methods *);
static Key *(*OpenKey)(Ctx *, String *, int);
static void (*CloseKey)(Key *);
static int (*DeleteKey)(Key *);
static int (*ModuleTypeSetValue)(Key *, Type *, void *);
static String *(*CreateString)(Ctx *, const char *, size_t);
static int (*Replicate)(Ctx *, const char *, const char *, ...);
static int (*ReplicateVerbatim)(Ctx *);
static int (*ReplyWithArray)(Ctx *, long);
static int (*ReplyWithStringBuffer)(Ctx *, const char *, size_t);
static int (*ReplyWithEmptyString)(Ctx *);
static int (*ReplyWithLongLong)(Ctx *, long long);
static int (*ReplyWithNull)(Ctx *);
static int (*ReplyWithSimpleString)(Ctx *, const char *);

static const char *(*StringPtrLen)(const String *, size_t *);
static CallReply *(*Call)(Ctx *, const char *, const char *, ...);
static int (*ReplyWithCallReply)(Ctx *, CallReply *);
static void (*FreeCallReply)(CallReply *);

static Type *type;
/* The constant word of the effect, made once. */
static String *held;

#define TOKEN "82319027-c8f1-4337-8b8d-000000000000"
/* As long as those of these years. */
#define FENCE 1795361817032432
#define FENCE_TEXT "1795361817032432"
#define DEADLINE_TEXT "1795361847032"

static int acquire(Ctx *ctx, String **words, int count) {
    (void)count;
    Key *key = OpenKey(ctx, words[1], READ | WRITE);
    ModuleTypeSetValue(key, type, &type);
    CloseKey(key);
    Replicate(ctx, "FLOOR.APPLY", "sssbb", words[1], held, words[3], FENCE_TEXT, sizeof FENCE_TEXT - 1, DEADLINE_TEXT,
              sizeof DEADLINE_TEXT - 1);
    ReplyWithArray(ctx, 3);
    ReplyWithStringBuffer(ctx, TOKEN, sizeof TOKEN - 1);
    ReplyWithLongLong(ctx, FENCE);
    return ReplyWithLongLong(ctx, 600000);
}

static int refuse(Ctx *ctx, String **words, int count) {
    (void)count;
    CloseKey(OpenKey(ctx, words[1], READ | WRITE));
    return ReplyWithNull(ctx);
}

static int release(Ctx *ctx, String **words, int count) {
    (void)count;
    Key *key = OpenKey(ctx, words[1], READ | WRITE);
    DeleteKey(key);
    CloseKey(key);
    ReplicateVerbatim(ctx);
    return ReplyWithLongLong(ctx, 1);
}

static int answer(Ctx *ctx, String **words, int count) {
    (void)count;
    CloseKey(OpenKey(ctx, words[1], READ | WRITE));
    ReplyWithArray(ctx, 5);
    ReplyWithStringBuffer(ctx, "DUPLICATE", 9);
    ReplyWithLongLong(ctx, 1);
    ReplyWithLongLong(ctx, 999999999);
    ReplyWithLongLong(ctx, -1);
    return ReplyWithEmptyString(ctx);
}

static int order(Ctx *ctx, String **words, int count) {
    ReplicateVerbatim(ctx);
    return answer(ctx, words, count);
}

static int guard(Ctx *ctx, String **words, int count) {
    CloseKey(OpenKey(ctx, words[1], READ));
    CallReply *reply = Call(ctx, StringPtrLen(words[3], NULL), "!0SMECv", words + 4, (size_t)count - 4);
    ReplyWithCallReply(ctx, reply);
    FreeCallReply(reply);
    return OK;
}

static int apply(Ctx *ctx, String **words, int count) {
    (void)words, (void)count;
    ReplicateVerbatim(ctx);
    return ReplyWithSimpleString(ctx, "OK");
}

static void drop(void *value) { (void)value; }

int RedisModule_OnLoad(Ctx *ctx, String **words, int count) {
    (void)words, (void)count;
    /* The first word of the context that a module is loaded with is the function that finds the others. */
    int (*find)(const char *, void *) = *(int (**)(const char *, void *))ctx;
    int missing = 0;
#define FIND(name) missing |= find("RedisModule_" #name, (void *)&name)
    FIND(SetModuleAttribs);
    FIND(CreateCommand);
    FIND(CreateDataType);
    FIND(OpenKey);
    FIND(CloseKey);
    FIND(DeleteKey);
    FIND(ModuleTypeSetValue);
    FIND(CreateString);
    FIND(Replicate);
    FIND(ReplicateVerbatim);
    FIND(ReplyWithArray);
    FIND(ReplyWithStringBuffer);
    FIND(ReplyWithEmptyString);
    FIND(ReplyWithLongLong);
    FIND(ReplyWithNull);
    FIND(ReplyWithSimpleString);
    FIND(StringPtrLen);
    FIND(Call);
    FIND(ReplyWithCallReply);
    FIND(FreeCallReply);
    if (missing) return ERR;
    SetModuleAttribs(ctx, "floor", 1, API_VERSION);
    held = CreateString(NULL, "HELD", 4);
    Methods methods = {.version = 1, .free = drop};
    type = CreateDataType(ctx, "the-floor", 0, &methods);
    const struct {
        const char *name;
        Command run;
        const char *flags;
    } commands[] = {
        {"floor.acquire", acquire, "write deny-oom fast"}, {"floor.refuse", refuse, "write deny-oom fast"},
        {"floor.release", release, "write fast"},          {"floor.order", order, "write deny-oom fast"},
        {"floor.answer", answer, "write deny-oom fast"},   {"floor.apply", apply, "write"},
        {"floor.guard", guard, "write"},
    };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (CreateCommand(ctx, commands[i].name, commands[i].run, commands[i].flags, 1, 1, 1) != OK) return ERR;
    return type ? OK : ERR;
}
